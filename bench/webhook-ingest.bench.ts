import { once } from 'node:events'
import type { Asked } from './keep-asking.ts'
import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'
import type { WebhookOrder } from './webhook-load-process.ts'

/**
 * Taking in signed notifications: verify, parse, seal, store durably and answer, everything on, against a bare handler
 * that verifies the same HMAC and inserts one row with one prepared statement.
 */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    const api = await stage.start('./api-process.ts')
    const bare = await stage.start('./bare-webhook-process.ts')
    const { process: sender } = await stage.start('./webhook-load-process.ts')
    const refused: Record<string, number> = {}
    const measure = async (order: Pick<WebhookOrder, 'port' | 'path'>) => {
      sender.send({ ...order, seconds: sized(3, 1), connections: 64 } satisfies WebhookOrder)
      const [report] = (await once(sender, 'message')) as [Asked]
      for (const [status, count] of Object.entries(report.statuses))
        refused[status] = (refused[status] ?? 0) + count
      return report.perSecond
    }
    const measured = await interleave({
      rounds: 7,
      ours: () => measure({ port: api.port, path: '/api/billing/webhook' }),
      floor: () => measure({ port: bare.port, path: '/webhook' }),
    })
    if (Object.keys(refused).some((status) => status !== '200')) {
      throw new Error(`Not all were taken: ${JSON.stringify(refused)}`)
    }
    const promise = 'taking in signed webhooks'
    return [{ promise, unit: 'requests/s', ...measured, goal: 'ratio >= 0.9' }]
  } finally {
    await stage.close()
  }
}
