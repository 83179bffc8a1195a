import { resealContact } from './pairs/keys.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([resealContact])
