import { openSeedWorker } from './campaign.ts'
import { workForParent } from './crew.ts'

/** One of several processes that share a campaign's seeds: `seed-process.ts <server>`. */
await workForParent(await openSeedWorker(process.argv[2]!))
