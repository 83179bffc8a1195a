import { eraseCard, eraseSettle, eraseSubscribe } from './pairs/erasures.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([eraseSettle, eraseCard, eraseSubscribe])
