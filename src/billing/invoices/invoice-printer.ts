import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { threadScript } from '../../platform/package-files.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import type { PrintOrder } from './invoice-pdf.ts'
import type { Printed, PrintMessage } from './print-thread.ts'

export type InvoicePrinter = {
  /** Draws an invoice for a caller, whose orders take turns with those of others. */
  print(caller: string, order: PrintOrder): Promise<Buffer>
  close(): Promise<void>
}

const mostWaiting = 256
const restAfterMs = 30_000
const keptBytes = 8 * 1024 * 1024
const keptForMs = 600_000

type Job = { readonly order: PrintOrder; resolve(pdf: Buffer): void; reject(error: unknown): void }

/**
 * Draws invoices in a thread of its own, so that this process goes on answering. The thread is started with the first
 * order and ended when there was none for a while. The same invoice in the same state is drawn once and kept for
 * minutes: the key is all that stands on it, so nothing old is ever given out.
 */
export function openInvoicePrinter(): InvoicePrinter {
  const kept = openKeptPages()
  const underWay = new Map<string, Promise<Buffer>>()
  const lines = new Map<string, Job[]>()
  let waiting = 0
  let running: { worker: Worker; job: Job | undefined } | undefined
  let resting: NodeJS.Timeout | undefined
  let count = 0

  function start(): { worker: Worker; job: Job | undefined } {
    const worker = new Worker(threadScript('print'), {
      name: 'printing',
      resourceLimits: { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 12 },
    })
    const started = { worker, job: undefined as Job | undefined }
    worker.unref()
    worker.on('message', (printed: Printed) => {
      const { job } = started
      started.job = undefined
      if ('pdf' in printed) job?.resolve(Buffer.from(printed.pdf.buffer))
      else job?.reject(printed.error)
      next()
    })
    worker.on('error', (error) => started.job?.reject(error))
    worker.on('exit', () => {
      started.job?.reject(new Error('The printing thread ended without an answer.'))
      if (running !== started) return
      running = undefined
      next()
    })
    return started
  }

  /** Callers take turns: whoever was served goes to the end of the line. */
  function take(): Job | undefined {
    for (const [caller, line] of lines) {
      lines.delete(caller)
      const job = line.shift()
      if (line.length > 0) lines.set(caller, line)
      if (job) return job
    }
    return undefined
  }

  function next(): void {
    if (running?.job) return
    const job = take()
    if (!job) {
      clearTimeout(resting)
      resting = setTimeout(rest, restAfterMs).unref()
      return
    }
    waiting--
    running ??= start()
    running.job = job
    running.worker.postMessage({ n: ++count, order: job.order } satisfies PrintMessage)
  }

  function rest(): void {
    if (!running || running.job) return
    const { worker } = running
    running = undefined
    void worker.terminate()
  }

  function draw(caller: string, order: PrintOrder): Promise<Buffer> {
    if (waiting >= mostWaiting)
      throw refuseRequest('rate_limited', {
        message: 'Too many invoices wait to be printed; wait for Retry-After.',
        headers: { 'retry-after': '2' },
      })
    return new Promise((resolve, reject) => {
      waiting++
      const line = lines.get(caller)
      if (line) line.push({ order, resolve, reject })
      else lines.set(caller, [{ order, resolve, reject }])
      next()
    })
  }

  return {
    async print(caller, order) {
      const key = keyOf(order)
      const known = kept.find(key)
      if (known) return known
      const same = underWay.get(key)
      if (same) return same
      const drawing = draw(caller, order).finally(() => underWay.delete(key))
      underWay.set(key, drawing)
      const pdf = await drawing
      kept.keep(key, pdf)
      return pdf
    },
    async close() {
      clearTimeout(resting)
      await running?.worker.terminate()
    },
  }
}

/** Everything that is printed, and nothing else. */
function keyOf({ logo, ...order }: PrintOrder): string {
  const text = JSON.stringify(order, (_name, value) => (typeof value === 'bigint' ? `${value}n` : value))
  return createHash('sha256').update(text).digest('base64')
}

/** The pages drawn last, up to a size and for some minutes: they hold names and addresses. */
function openKeptPages() {
  const pages = new Map<string, { pdf: Buffer; until: number }>()
  let bytes = 0

  const drop = (key: string) => {
    bytes -= pages.get(key)?.pdf.length ?? 0
    pages.delete(key)
  }
  return {
    find(key: string): Buffer | undefined {
      const page = pages.get(key)
      if (page && page.until > performance.now()) return page.pdf
      drop(key)
      return undefined
    },
    keep(key: string, pdf: Buffer): void {
      const now = performance.now()
      for (const [oldest, { until }] of pages) {
        if (until > now && bytes + pdf.length <= keptBytes) break
        drop(oldest)
      }
      drop(key)
      pages.set(key, { pdf, until: now + keptForMs })
      bytes += pdf.length
    },
  }
}
