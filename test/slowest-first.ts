import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take longest, longest first. One of them begun last would keep one worker busy while others have nothing. */
const slowest = [
  'simulation/simulation',
  'browser/console',
  'platform/embedded-postgres',
  'processes/start-and-stop',
  'plans/plans',
  'replica/replica',
  'fuzz/fuzz',
  'billing/races',
  'interleavings/refunds',
  'batch/import',
  'platform/queue',
  'batch/training',
  'batch/collect-campaign',
  'billing/demo',
  'billing/broken-rows',
  'chaos/chaos',
  'billing/restore-commands',
  'processes/several-processes',
  'batch/predictions',
  'batch/check-model',
  'simulation/crash-everywhere',
  'interleavings/webhooks',
  'interleavings/trials-and-keys',
  'interleavings/authentication',
  'interleavings/erasures',
  'interleavings/renewals',
  'billing/webhooks',
  'billing/sandbox-provider',
  'processes/live',
  'endurance/provider-hang',
  'batch/source-keys',
  'providers/story',
  'log/stages',
  'sandbox/notifications',
  'processes/hard-starts',
  'processes/wave',
  'processes/install',
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
