import { startUpkeep, startWorker } from '../src/worker.ts'
import { openService } from './open-service.ts'

/** API and worker in one process, as `serve` runs them. */
const { app, token, port } = await openService()
startUpkeep(app)
startWorker(app)
process.send!({ port, token })
