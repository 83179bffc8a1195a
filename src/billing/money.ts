import { invariant } from '../platform/invariant.ts'

/** An exact amount in the currency's minor unit: 9900n KRW is ₩9,900, 9900n USD is $99.00. */
export type Money = { readonly minor: bigint; readonly currency: Currency }

export type Currency = keyof typeof minorDigits

export function isCurrency(text: unknown): text is Currency {
  return typeof text === 'string' && Object.hasOwn(minorDigits, text)
}

export function subtract(a: Money, b: Money): Money {
  return { minor: a.minor - sameCurrency(a, b).minor, currency: a.currency }
}

export function sameMoney(a: Money, b: Money): boolean {
  return a.minor === b.minor && a.currency === b.currency
}

/** What the API says: a whole number of minor units beside its currency. */
export type MoneyJson = { readonly amount: number; readonly currency: Currency }

export function toJson(money: Money): MoneyJson {
  const amount = Number(money.minor)
  invariant(Number.isSafeInteger(amount), 'an amount in JSON is a safe integer')
  return { amount, currency: money.currency }
}

/** Undefined when the amount is no safe integer, which a double may already have changed, or the currency unknown. */
export function fromJson(json: { readonly amount: unknown; readonly currency: unknown }): Money | undefined {
  if (!Number.isSafeInteger(json.amount) || !isCurrency(json.currency)) return undefined
  return { minor: BigInt(json.amount as number), currency: json.currency }
}

/** Writes an amount for people, as on a printed invoice: `₩9,900`, `$19.00`. */
export function formatMoney(money: Money, locale = 'en-US'): string {
  // Intl reads decimal text exactly; a number would lose units past 2^53.
  return formatterOf(money.currency, locale).format(toDecimal(money) as `${number}`)
}

function sameCurrency(a: Money, b: Money): Money {
  invariant(a.currency === b.currency, `${a.currency} and ${b.currency} do not mix`)
  return b
}

function toDecimal(money: Money): string {
  const digits = minorDigits[money.currency]
  const text = (money.minor < 0n ? -money.minor : money.minor).toString().padStart(digits + 1, '0')
  const sign = money.minor < 0n ? '-' : ''
  if (digits === 0) return sign + text
  return `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`
}

const formatters = new Map<string, Intl.NumberFormat>()

/** The number of digits is ISO's, not that of Intl, which shows the Iraqi dinar and others without any. */
function formatterOf(currency: Currency, locale: string): Intl.NumberFormat {
  const key = `${locale} ${currency}`
  const known = formatters.get(key)
  if (known) return known

  const digits = minorDigits[currency]
  const formatter = new Intl.NumberFormat(locale, {
    style: 'currency',
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
  formatters.set(key, formatter)
  return formatter
}

// ISO 4217 as of 2026: every active currency that people pay with, and the digits after its decimal point. Funds,
// metals and test codes are left out.
const minorDigits = {
  AED: 2,
  AFN: 2,
  ALL: 2,
  AMD: 2,
  AOA: 2,
  ARS: 2,
  AUD: 2,
  AWG: 2,
  AZN: 2,
  BAM: 2,
  BBD: 2,
  BDT: 2,
  BHD: 3,
  BIF: 0,
  BMD: 2,
  BND: 2,
  BOB: 2,
  BRL: 2,
  BSD: 2,
  BTN: 2,
  BWP: 2,
  BYN: 2,
  BZD: 2,
  CAD: 2,
  CDF: 2,
  CHF: 2,
  CLP: 0,
  CNY: 2,
  COP: 2,
  CRC: 2,
  CUP: 2,
  CVE: 2,
  CZK: 2,
  DJF: 0,
  DKK: 2,
  DOP: 2,
  DZD: 2,
  EGP: 2,
  ERN: 2,
  ETB: 2,
  EUR: 2,
  FJD: 2,
  FKP: 2,
  GBP: 2,
  GEL: 2,
  GHS: 2,
  GIP: 2,
  GMD: 2,
  GNF: 0,
  GTQ: 2,
  GYD: 2,
  HKD: 2,
  HNL: 2,
  HTG: 2,
  HUF: 2,
  IDR: 2,
  ILS: 2,
  INR: 2,
  IQD: 3,
  IRR: 2,
  ISK: 0,
  JMD: 2,
  JOD: 3,
  JPY: 0,
  KES: 2,
  KGS: 2,
  KHR: 2,
  KMF: 0,
  KPW: 2,
  KRW: 0,
  KWD: 3,
  KYD: 2,
  KZT: 2,
  LAK: 2,
  LBP: 2,
  LKR: 2,
  LRD: 2,
  LSL: 2,
  LYD: 3,
  MAD: 2,
  MDL: 2,
  MGA: 2,
  MKD: 2,
  MMK: 2,
  MNT: 2,
  MOP: 2,
  MRU: 2,
  MUR: 2,
  MVR: 2,
  MWK: 2,
  MXN: 2,
  MYR: 2,
  MZN: 2,
  NAD: 2,
  NGN: 2,
  NIO: 2,
  NOK: 2,
  NPR: 2,
  NZD: 2,
  OMR: 3,
  PAB: 2,
  PEN: 2,
  PGK: 2,
  PHP: 2,
  PKR: 2,
  PLN: 2,
  PYG: 0,
  QAR: 2,
  RON: 2,
  RSD: 2,
  RUB: 2,
  RWF: 0,
  SAR: 2,
  SBD: 2,
  SCR: 2,
  SDG: 2,
  SEK: 2,
  SGD: 2,
  SHP: 2,
  SLE: 2,
  SOS: 2,
  SRD: 2,
  SSP: 2,
  STN: 2,
  SVC: 2,
  SYP: 2,
  SZL: 2,
  THB: 2,
  TJS: 2,
  TMT: 2,
  TND: 3,
  TOP: 2,
  TRY: 2,
  TTD: 2,
  TWD: 2,
  TZS: 2,
  UAH: 2,
  UGX: 0,
  USD: 2,
  UYU: 2,
  UZS: 2,
  VED: 2,
  VES: 2,
  VND: 0,
  VUV: 0,
  WST: 2,
  XAF: 0,
  XCD: 2,
  XCG: 2,
  XOF: 0,
  XPF: 0,
  YER: 2,
  ZAR: 2,
  ZMW: 2,
  ZWG: 2,
} as const
