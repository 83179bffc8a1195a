import {
  keyRefund,
  keySubscribe,
  subscribeSubscribe,
  trialSubscribe,
  trialTrial,
} from './pairs/trials-and-keys.ts'
import { provePairs } from './prove-pairs.ts'

provePairs([keyRefund, keySubscribe, subscribeSubscribe, trialSubscribe, trialTrial])
