import type { Pair } from '../pair.ts'
import { confirmCard, confirmRetry } from './authentication.ts'
import { eraseCard, eraseSettle, eraseSubscribe } from './erasures.ts'
import { resealContact } from './keys.ts'
import { lateSweep, limiterFirst, limiterLimiter } from './machinery.ts'
import { refundBounces, refundElsewhere, refundParts, refundRefund, refundWebhook } from './refunds.ts'
import { renewCancel, renewCard, renewRenew, retryCard } from './renewals.ts'
import { keyRefund, keySubscribe, subscribeSubscribe, trialSubscribe, trialTrial } from './trials-and-keys.ts'
import { resendCancel, unsentCancel, unsentCard, unsentLate, unsentMoves } from './unsent.ts'
import { webhookApi, webhookCancel, webhookWebhook } from './webhooks.ts'

export const allPairs: readonly Pair[] = [
  renewRenew,
  renewCancel,
  renewCard,
  retryCard,
  unsentCard,
  unsentLate,
  unsentMoves,
  unsentCancel,
  resendCancel,
  confirmRetry,
  confirmCard,
  refundRefund,
  refundParts,
  refundWebhook,
  refundElsewhere,
  refundBounces,
  trialTrial,
  trialSubscribe,
  subscribeSubscribe,
  keySubscribe,
  keyRefund,
  resealContact,
  webhookWebhook,
  webhookApi,
  webhookCancel,
  eraseSettle,
  eraseCard,
  eraseSubscribe,
  lateSweep,
  limiterLimiter,
  limiterFirst,
]
