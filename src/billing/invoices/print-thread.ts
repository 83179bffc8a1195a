import { parentPort } from 'node:worker_threads'
import { giveWay } from '../../platform/give-way.ts'
import { type PrintOrder, renderInvoicePdf } from './invoice-pdf.ts'

/** The inside of the thread that draws invoices: one after another, each answered under its number. */
export type PrintMessage = { readonly n: number; readonly order: PrintOrder }
export type Printed = { readonly n: number } & (
  | { readonly pdf: Uint8Array<ArrayBuffer> }
  | { readonly error: unknown }
)

giveWay('somebody')
parentPort!.on('message', async ({ n, order }: PrintMessage) => {
  try {
    const pdf = new Uint8Array(await renderInvoicePdf(order))
    parentPort!.postMessage({ n, pdf } satisfies Printed, [pdf.buffer])
  } catch (error) {
    parentPort!.postMessage({ n, error } satisfies Printed)
  }
})
