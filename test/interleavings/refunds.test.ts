import { refundElsewhere, refundParts, refundRefund, refundWebhook } from './pairs/refunds.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([refundElsewhere, refundParts, refundRefund, refundWebhook])
