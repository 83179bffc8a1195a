import { guardProcessOutput } from '../../src/platform/log/guard-process-output.ts'
import { createLog, type Stages } from '../../src/platform/log/log.ts'
import { createSecretSet } from '../../src/platform/log/secret-set.ts'
import { type Carrier, carriers, probeEvents } from './carriers.ts'
import { heldValues, kinds, type Planted, pick, plant, seededRandom } from './planted-secrets.ts'
import { traceOf } from './trace.ts'

export type Run = {
  readonly count: number
  readonly seed: number
  readonly only?: (planted: Planted, carrier: Carrier) => boolean
  readonly most?: number
}

export type Leak = {
  readonly kind: string
  readonly carrier: string
  readonly sentence: string
  readonly output: string
}

/** Plants secrets one by one and returns those that can be read from what came out. */
export function leaksOf(stages: Partial<Stages>, { count, seed, only, most = 5 }: Run): Leak[] {
  const held = heldValues(seed)
  const secrets = createSecretSet()
  for (const values of held.values()) for (const value of values) secrets.add(value)

  let output = ''
  const destination = {
    write(bytes: Uint8Array) {
      output += Buffer.from(bytes).toString()
    },
  }
  const log = createLog(probeEvents, { level: 'info', secrets, destination, stages })
  const guard = guardProcessOutput(log, { exit: () => {} })

  const leaks: Leak[] = []
  const random = seededRandom(seed)
  const names = Object.keys(carriers)
  try {
    for (let i = 0, carried = 0; carried < count && leaks.length < most; i++) {
      const secret = plant(random, kinds[i % kinds.length]!, held)
      const name = pick(random, names)
      const carrier = carriers[name]!
      if (only && !only(secret, carrier)) continue
      carried++
      output = ''
      carrier.carry(log, secret)
      if (traceOf(secret, output) === undefined) continue
      leaks.push({ kind: secret.kind, carrier: name, sentence: secret.sentence, output })
    }
  } finally {
    guard.uninstall()
  }
  return leaks
}
