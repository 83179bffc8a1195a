import { type Currency, isCurrency, type Money } from '../../money.ts'

/**
 * The currencies Stripe takes. The Ugandan shilling is left out: sources differ on whether it is sent in whole units or in
 * hundredths, and a wrong guess takes a hundred times the price.
 */
const taken = `
  AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BIF BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF CLP CNY COP CRC CVE
  CZK DJF DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR ISK JMD JPY KES KGS
  KHR KMF KRW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD
  PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RWF SAR SBD SCR SEK SGD SHP SLE SOS SRD SZL THB TJS TOP TRY TTD TWD TZS UAH
  USD UYU UZS VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW BHD JOD KWD OMR TND`

export const stripeCurrencies: ReadonlySet<string> = new Set(taken.trim().split(/\s+/))

// Stripe counts most currencies in ISO's minor unit, and these in another.
const perMinor: Partial<Record<Currency, bigint>> = { ISK: 100n }
const minorsPer: Partial<Record<Currency, bigint>> = { MGA: 100n }
// Sent in thousandths, of which the last digit must be zero.
const endsInZero: ReadonlySet<string> = new Set(['BHD', 'JOD', 'KWD', 'OMR', 'TND'])

// Twelve digits, as for most cards of any currency. Some cards take less (American Express nine digits), which only Stripe can
// tell: a lower limit here would refuse prices that others pay, such as a monthly one in rupiah.
const mostAmount = 999_999_999_999n

/** Undefined: Stripe cannot be asked for this amount. */
export function toStripeAmount({ minor, currency }: Money): number | undefined {
  if (!stripeCurrencies.has(currency)) return undefined
  const unit = minorsPer[currency] ?? 1n
  if (minor % unit !== 0n) return undefined
  const amount = (minor * (perMinor[currency] ?? 1n)) / unit
  if (amount < 1n || amount > mostAmount) return undefined
  if (endsInZero.has(currency) && amount % 10n !== 0n) return undefined
  return Number(amount)
}

/** Undefined: this is no amount of a currency that we know. */
export function fromStripeAmount(amount: unknown, currency: unknown): Money | undefined {
  if (typeof amount !== 'number' || !Number.isSafeInteger(amount) || typeof currency !== 'string')
    return undefined
  const code = currency.toUpperCase()
  if (!isCurrency(code)) return undefined
  const units = perMinor[code] ?? 1n
  const given = BigInt(amount)
  if (given % units !== 0n) return undefined
  return { minor: (given / units) * (minorsPer[code] ?? 1n), currency: code }
}
