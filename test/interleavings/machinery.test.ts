import { lateSweep, limiterFirst, limiterLimiter } from './pairs/machinery.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([lateSweep, limiterFirst, limiterLimiter])
