import { openBareRenewals } from './bare-renewals.ts'
import { renew } from './renew.ts'
import { cpuOfRenewals } from './renewal-cpu.ts'
import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'
import { storeSubscriptions } from './stored-subscriptions.ts'

const atOnce = sized(600, 60)
const stored = sized(8_000, 1_000)

/** Renewals over the HTTP sandbox, against the bare statements of their two transactions; and what each costs of a core. */
export async function bench(): Promise<BenchResult[]> {
  return [await besideBareStatements(), ...(await cpuOfRenewals())]
}

async function besideBareStatements(): Promise<BenchResult> {
  const stage = await openStage()
  const bare = openBareRenewals(stage.url, stored)
  try {
    const api = await stage.start('./renewal-process.ts')
    await storeSubscriptions(stage, api, stored)
    const measured = await interleave({
      rounds: 5,
      ours: () => renew(api.process, atOnce),
      floor: () => bare(atOnce),
    })
    return {
      promise: 'renewals over HTTP, webhooks on',
      unit: 'renewals/s',
      ...measured,
      goal: 'ratio >= 0.75 and ours >= 400',
    }
  } finally {
    await bare.close()
    await stage.close()
  }
}
