import { openService } from './open-service.ts'

/** The API alone, in a process of its own. */
const { token, port } = await openService()
process.send!({ port, token })
