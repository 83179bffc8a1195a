import { webhookApi, webhookCancel, webhookWebhook } from './pairs/webhooks.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([webhookApi, webhookCancel, webhookWebhook])
