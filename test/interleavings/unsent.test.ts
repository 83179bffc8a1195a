import { resendCancel, unsentCancel, unsentCard, unsentLate, unsentMoves } from './pairs/unsent.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([unsentCard, unsentLate, unsentMoves, unsentCancel, resendCancel])
