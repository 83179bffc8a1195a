import { portoneWire } from './portone/portone-wire.ts'
import { stripeWire } from './stripe/stripe-wire.ts'
import { tossWire } from './toss/toss-wire.ts'
import { sandboxWire, type Wire } from './wire.ts'

/** Every language the sandbox speaks. */
export const wires: readonly Wire[] = [sandboxWire, stripeWire, tossWire, portoneWire]
