import { jobLease, limiterFirst, limiterLimiter } from './pairs/machinery.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([jobLease, limiterFirst, limiterLimiter])
