import { startNotifier } from '../src/app.ts'
import { seedPlans } from '../src/billing/plans/seed-plans.ts'
import { openService } from './open-service.ts'
import { renewOnRequest } from './renew-on-request.ts'

/**
 * The whole service in one process, the sandbox provider over HTTP and its notifications on. Told a number, it makes that
 * many stored subscriptions due, renews them, and says how many it did in a second.
 */
const { app, token, port } = await openService()
await seedPlans(app.billing)
startNotifier(app, `http://127.0.0.1:${port}`)

renewOnRequest(app)
process.send!({ port, token, sandboxUrl: app.sandboxUrl, sandboxKey: app.sandboxKey })
