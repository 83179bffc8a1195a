import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take longest, longest first. One of them begun last would keep one worker busy while others have nothing. */
const slowest = [
  'simulation/simulation',
  'platform/embedded-postgres',
  'processes/start-and-stop',
  'chaos/chaos',
  'platform/queue',
  'batch/import',
  'processes/several-processes',
  'interleavings/refunds',
  'billing/races',
  'batch/training',
  'batch/check-model',
  'endurance/provider-hang',
  'fuzz/fuzz',
  'interleavings/webhooks',
  'billing/webhooks',
  'billing/sandbox-provider',
  'simulation/crash-everywhere',
  'sandbox/notifications',
  'billing/demo',
  'log/many-secrets',
  'log/hostile-text',
  'processes/hard-starts',
  'processes/wave',
  'processes/install',
  'interleavings/machinery',
  'interleavings/renewals',
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
