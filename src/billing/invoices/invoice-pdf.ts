import { readFile } from 'node:fs/promises'
import { packageFile } from '../../platform/package-files.ts'
import { renderInstant } from '../../platform/time.ts'
import type { Contact } from '../accounts/account-rows.ts'
import { formatMoney } from '../money.ts'
import type { Language } from '../seller.ts'
import type { Invoice, InvoicePayment, InvoiceRefund } from './invoice.ts'
import { type Words, wordsIn } from './invoice-words.ts'

/** All that stands on the sheet. */
export type PrintOrder = {
  readonly invoice: Invoice
  readonly contact: Contact
  readonly logo: Uint8Array | null
  readonly language: Language
}

/** Draws an invoice as a printable A4 document. */
export async function renderInvoicePdf({ invoice, contact, logo, language }: PrintOrder): Promise<Buffer> {
  const { PDFDocument, font } = await loadPrinter()
  const words = wordsIn[language]
  const doc = new PDFDocument({
    size: 'A4',
    margins: { top: margin, bottom: margin, left: margin, right: margin },
    lang: language,
    info: {
      Title: `${words.invoice} ${invoice.number}`,
      Author: invoice.seller.name,
      CreationDate: invoice.issuedAt,
    },
  })
  const finished = collect(doc)
  doc.font(font)
  const sheet = { doc, words, at: (instant: Date) => renderInstant(instant, invoice.timeZone) }

  drawHead(sheet, invoice, logo)
  drawParties(sheet, invoice, contact)
  drawLines(sheet, invoice)
  drawTotals(sheet, invoice)
  drawPayments(sheet, invoice.payments)
  drawRefunds(sheet, invoice.refunds)
  drawFoot(sheet, invoice)
  doc.end()
  return finished
}

type Sheet = {
  readonly doc: PDFKit.PDFDocument
  readonly words: Words
  readonly at: (instant: Date) => string
}

const margin = 56
const left = margin
const right = 595.28 - margin
const width = right - left
const ink = '#1a1d21'
const faint = '#667085'
const rule = '#d0d5dd'

type Printer = { PDFDocument: typeof import('pdfkit'); font: Buffer }
let printer: Promise<Printer> | undefined

/** Loaded with the first invoice that is printed. Noto Sans KR holds Latin, Hangul and the won sign. */
function loadPrinter(): Promise<Printer> {
  printer ??= Promise.all([
    import('pdfkit'),
    readFile(packageFile('assets/fonts/NotoSansKR_400Regular.ttf')),
  ]).then(([{ default: PDFDocument }, font]) => ({ PDFDocument, font }))
  return printer
}

function collect(doc: PDFKit.PDFDocument): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    doc.on('data', (chunk: Buffer) => chunks.push(chunk))
    doc.on('end', () => resolve(Buffer.concat(chunks)))
    doc.on('error', reject)
  })
}

function drawHead({ doc, words, at }: Sheet, invoice: Invoice, logo: Uint8Array | null): void {
  doc.fillColor(ink).fontSize(24).text(words.invoice, left, margin)
  const under = logo ? drawLogo(doc, logo) : margin + 4
  doc
    .fillColor(ink)
    .fontSize(11)
    .text(invoice.seller.name, left + width / 2, under, { width: width / 2, align: 'right' })
  doc.y = Math.max(doc.y + 14, margin + 56)
  const facts: [string, string][] = [
    [words.number, invoice.number],
    [words.issued, at(invoice.issuedAt).slice(0, 10)],
    [words.status, words.statuses[invoice.status] + (invoice.hold ? ` (${words.onHold})` : '')],
    [words.period, `${minuteOf(at(invoice.periodStart))}  ~  ${minuteOf(at(invoice.periodEnd))}`],
  ]
  if (invoice.paidAt) facts.push([words.paidAt, minuteOf(at(invoice.paidAt))])
  for (const [name, value] of facts) drawFact(doc, name, value)
  doc.y += 14
}

const logoBox = { width: 150, height: 44 }

/** In the upper right corner, as large as its box allows. Returns where it ends. */
function drawLogo(doc: PDFKit.PDFDocument, logo: Uint8Array): number {
  doc.image(Buffer.from(logo), right - logoBox.width, margin - 6, {
    fit: [logoBox.width, logoBox.height],
    align: 'right',
    valign: 'center',
  })
  return margin - 6 + logoBox.height + 6
}

function drawFact(doc: PDFKit.PDFDocument, name: string, value: string): void {
  const { y } = doc
  doc.fillColor(faint).fontSize(9).text(name, left, y, { width: 80 })
  doc.fillColor(ink).text(value, left + 84, y, { width: width - 84 })
  doc.y += 2
}

/** `2026-12-14 09:30 +09:00`: what a person checks, without milliseconds. */
function minuteOf(instant: string): string {
  return `${instant.slice(0, 10)} ${instant.slice(11, 16)} ${instant.slice(-6)}`
}

function drawParties({ doc, words }: Sheet, invoice: Invoice, contact: Contact): void {
  const { seller } = invoice
  const column = width / 2 - 12
  const top = doc.y
  const from = drawParty(doc, left, top, column, words.from, [
    seller.name,
    ...(seller.address?.split('\n') ?? []),
    ...(seller.registration ? [`${words.registration} ${seller.registration}`] : []),
    ...(seller.tax_id ? [`${words.taxId} ${seller.tax_id}`] : []),
  ])
  const customer = [contact.name, contact.email, `${words.account} ${invoice.accountId}`]
  const to = drawParty(
    doc,
    left + width / 2,
    top,
    column,
    words.billTo,
    customer.filter((line) => line !== undefined),
  )
  doc.y = Math.max(from, to) + 18
}

function drawParty(
  doc: PDFKit.PDFDocument,
  x: number,
  y: number,
  column: number,
  title: string,
  lines: readonly string[],
): number {
  doc.fillColor(faint).fontSize(8.5).text(title, x, y, { width: column })
  doc.fillColor(ink).fontSize(10)
  for (const line of lines) doc.text(line, x, doc.y + 1, { width: column })
  return doc.y
}

type Column = { readonly title: string; readonly width: number; readonly align: 'left' | 'right' }

function drawLines(sheet: Sheet, invoice: Invoice): void {
  const columns: Column[] = [
    { title: sheet.words.description, width: width - 180, align: 'left' },
    { title: sheet.words.quantity, width: 70, align: 'right' },
    { title: sheet.words.amount, width: 110, align: 'right' },
  ]
  drawTable(sheet.doc, columns, [[invoice.description, '1', formatMoney(invoice.due)]])
}

function drawTotals({ doc, words }: Sheet, invoice: Invoice): void {
  const owed = invoice.status === 'open' ? invoice.due.minor - invoice.paid.minor : 0n
  const totals: [string, string][] = [
    [words.total, formatMoney(invoice.due)],
    [words.paid, formatMoney(invoice.paid)],
    ...(invoice.refunded.minor > 0n
      ? [[words.refunded, formatMoney(invoice.refunded)] as [string, string]]
      : []),
    [words.owed, formatMoney({ minor: owed, currency: invoice.due.currency })],
  ]
  doc.y += 4
  for (const [name, value] of totals) {
    const { y } = doc
    const isLast = name === words.owed
    doc.fillColor(isLast ? ink : faint).fontSize(isLast ? 11 : 9.5)
    doc.text(name, right - 250, y, { width: 130, align: 'right' })
    doc.fillColor(ink).text(value, right - 110, y, { width: 110, align: 'right' })
    doc.y += 3
  }
  doc.y += 16
}

function drawPayments({ doc, words, at }: Sheet, payments: readonly InvoicePayment[]): void {
  if (payments.length === 0) return
  const rows = payments.map((payment) => [
    minuteOf(at(payment.settledAt ?? payment.createdAt)),
    [
      words.payments[payment.status],
      payment.code && (words.codes[payment.code] ?? payment.code.replaceAll('_', ' ')),
      payment.disputed && words.disputed,
    ]
      .filter((word) => typeof word === 'string')
      .join(', '),
    payment.paymentId,
    formatMoney(payment.amount),
  ])
  drawSection(doc, words.paymentsTitle, moneyColumns(words), rows)
}

function drawRefunds({ doc, words, at }: Sheet, refunds: readonly InvoiceRefund[]): void {
  if (refunds.length === 0) return
  const rows = refunds.map((refund) => [
    minuteOf(at(refund.createdAt)),
    [
      words.refunds[refund.status],
      refund.reason && (words.codes[refund.reason] ?? refund.reason.replaceAll('_', ' ')),
    ]
      .filter((word) => typeof word === 'string')
      .join(', '),
    refund.refundId,
    formatMoney(refund.amount),
  ])
  drawSection(doc, words.refundsTitle, moneyColumns(words), rows)
}

function moneyColumns(words: Words): readonly Column[] {
  return [
    { title: words.when, width: 118, align: 'left' },
    { title: words.what, width: 104, align: 'left' },
    { title: words.reference, width: width - 118 - 104 - 78, align: 'left' },
    { title: words.amount, width: 78, align: 'right' },
  ]
}

function drawSection(
  doc: PDFKit.PDFDocument,
  title: string,
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): void {
  makeRoom(doc, 64)
  doc.fillColor(ink).fontSize(11).text(title, left, doc.y, { width })
  doc.y += 4
  drawTable(doc, columns, rows)
  doc.y += 12
}

function drawTable(
  doc: PDFKit.PDFDocument,
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): void {
  doc.fontSize(8.5).fillColor(faint)
  drawRow(
    doc,
    columns,
    columns.map(({ title }) => title),
  )
  drawRule(doc)
  doc.fontSize(9).fillColor(ink)
  for (const row of rows) {
    drawRow(doc, columns, row)
    drawRule(doc)
  }
}

/** A row is as high as its highest cell, and is not torn apart by the end of a page. */
function drawRow(doc: PDFKit.PDFDocument, columns: readonly Column[], cells: readonly string[]): void {
  const padding = 6
  const heights = columns.map((column, at) =>
    doc.heightOfString(cells[at] ?? '', { width: column.width - padding }),
  )
  const height = Math.max(...heights)
  makeRoom(doc, height + 8)
  const { y } = doc
  let x = left
  for (const [at, column] of columns.entries()) {
    const isLast = at === columns.length - 1
    doc.text(cells[at] ?? '', x, y, { width: column.width - (isLast ? 0 : padding), align: column.align })
    x += column.width
  }
  doc.y = y + height + 4
}

function drawRule(doc: PDFKit.PDFDocument): void {
  doc.moveTo(left, doc.y).lineTo(right, doc.y).lineWidth(0.5).strokeColor(rule).stroke()
  doc.y += 4
}

function makeRoom(doc: PDFKit.PDFDocument, height: number): void {
  if (doc.y + height > doc.page.height - margin) doc.addPage()
}

function drawFoot({ doc, words }: Sheet, invoice: Invoice): void {
  makeRoom(doc, 40)
  doc.y += 8
  doc.fillColor(faint).fontSize(8)
  doc.text(words.foot(invoice.timeZone, invoice.subscriptionId), left, doc.y, { width })
}
