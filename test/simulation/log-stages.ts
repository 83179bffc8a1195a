import type { Stages } from '../../src/platform/log/log.ts'
import { leaksOf } from '../log/leaks.ts'
import { heldKinds, type Planted } from '../log/planted-secrets.ts'

const off: Stages = { admit: false, maskNames: false, maskValues: false, guardBytes: false }
const count = 200

/**
 * Stages of the log that let through what each of them must hold by itself. Together they hide each other's failures,
 * so no line of a run could tell that one of them is off.
 */
export function leakingStages(seed: number): string[] {
  const alone = {
    admit: () => leaksOf({ ...off, admit: true }, { count, seed }),
    maskNames: () =>
      leaksOf({ ...off, maskNames: true }, { count, seed, only: (_, carrier) => carrier.isNamed }),
    maskValues: () =>
      leaksOf({ ...off, maskValues: true }, { count, seed, only: ({ kind }) => kind === 'card_number' }),
    guardBytes: () => leaksOf({ ...off, guardBytes: true }, { count, seed, only: isHeld }),
  }
  return Object.entries(alone)
    .filter(([, leaks]) => leaks().length > 0)
    .map(([stage]) => stage)
}

function isHeld({ kind, isEncodedPlainly }: Planted): boolean {
  return heldKinds.has(kind) && isEncodedPlainly
}
