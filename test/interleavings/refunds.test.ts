import { refundBounces, refundElsewhere, refundParts, refundRefund, refundWebhook } from './pairs/refunds.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([refundBounces, refundElsewhere, refundParts, refundRefund, refundWebhook])
