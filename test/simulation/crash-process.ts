import { openCrashWorker } from './crash-worker.ts'
import { workForParent } from './crew.ts'

/** One of several processes that share the courses: `crash-process.ts <server>`. */
await workForParent(await openCrashWorker(process.argv[2]!))
