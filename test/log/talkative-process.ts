import { guardProcessOutput } from '../../src/platform/log/guard-process-output.ts'
import { createLog } from '../../src/platform/log/log.ts'
import { createSecretSet } from '../../src/platform/log/secret-set.ts'
import { showOnce } from '../../src/platform/log/show-once.ts'

/** A process that lets its secrets slip in the way its first argument says. */
const way = process.argv[2]
const secrets = createSecretSet()
secrets.add('swordfish-one')
const log = createLog({}, { level: 'info', secrets })
const guard = guardProcessOutput(log, { stdout: way === 'results' ? 'results' : 'events' })
const slip = 'card 4111 1111 1111 1111 and swordfish-one'

if (way === 'console') console.log(slip, { name: 'Kim' })
if (way === 'stderr') process.stderr.write(slip)
if (way === 'warning') process.emitWarning(slip, 'SlipWarning')
if (way === 'exception') throw new RangeError(slip)
if (way === 'rejection') void Promise.reject(new RangeError(slip))
if (way === 'show') showOnce('rl_test_shown')
if (way === 'results') {
  process.stdout.write('plan starter, card 4111 1111 ')
  process.stdout.write('1111 1111\nkey -----BEGIN PRIVATE KEY-----\n')
  process.stdout.write('MIIBVAIBADANBgkqhkiG\n-----END PRIVATE KEY-----\nno newline: swordfish-one')
}
if (way === 'uninstalled') {
  guard.uninstall()
  console.log('as it was')
}
