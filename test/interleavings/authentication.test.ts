import { confirmCard, confirmRetry } from './pairs/authentication.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([confirmRetry, confirmCard])
