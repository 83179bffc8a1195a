import { renewCancel, renewCard, renewRenew, retryCard } from './pairs/renewals.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([renewCancel, renewCard, renewRenew, retryCard])
