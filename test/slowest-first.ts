import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * The files that take longest, longest first. One of them begun last would keep one worker busy while others have nothing.
 * Those that mostly wait, for a lease or a provider that hangs, stand early and apart, so that others have the processor
 * meanwhile.
 */
const slowest = [
  'platform/queue',
  'simulation/simulation',
  'batch/training',
  'browser/console',
  'browser/troubles',
  'endurance/provider-hang',
  'platform/embedded-postgres',
  'chaos/chaos',
  'plans/plans',
  'billing/sandbox-provider',
  'processes/start-and-stop',
  'batch/collect-campaign',
  'batch/rank-orders',
  'fuzz/fuzz',
  'replica/replica',
  'browser/money-forms',
  'batch/import',
  'interleavings/refunds',
  'upgrade/upgrade',
  'processes/several-processes',
  'billing/demo',
  'billing/webhooks',
  'batch/check-model',
  'simulation/crash-everywhere',
  'batch/predictions',
  'interleavings/renewals',
  'processes/live',
  'providers/story',
  'interleavings/webhooks',
  'billing/restore',
  'billing/broken-rows',
  'processes/install',
  'browser/shown',
  'interleavings/authentication',
  'interleavings/unsent',
  'interleavings/erasures',
  'processes/wave',
  'interleavings/trials-and-keys',
  'billing/races',
  'sandbox/notifications',
  'billing/restore-commands',
  'batch/source-keys',
  'log/stages',
  'providers/toss-contract',
  'providers/contract',
  'log/process-output',
  'processes/hard-starts',
].map((name) => fileURLToPath(new URL(`./${name}.test.ts`, import.meta.url)))

const gone = slowest.find((file) => !existsSync(file))
if (gone) throw new Error(`${gone} is not there; take it out of the list of the slowest files.`)

export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = slowest.indexOf(moduleId)
      return at === -1 ? slowest.length : at
    }
    return (await super.sort(files)).sort((a, b) => place(a) - place(b))
  }
}
