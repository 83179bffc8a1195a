import { useLanguage } from './language.tsx'

export function useMoney(): (amount: number, currency: string) => string {
  const { language } = useLanguage()
  return (amount, currency) => {
    const format = new Intl.NumberFormat(language, { style: 'currency', currency })
    return format.format(amount / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2))
  }
}

export function useNumber(): (value: number, options?: Intl.NumberFormatOptions) => string {
  const { language } = useLanguage()
  return (value, options) => new Intl.NumberFormat(language, options).format(value)
}

/** An instant as it is written: the wall clock of the zone it was given in. */
function wallClock(instant: string): Date {
  return new Date(`${instant.slice(0, 19)}Z`)
}

export function useTime(): (instant: string, style?: 'day' | 'minute') => string {
  const { language } = useLanguage()
  return (instant, style = 'minute') =>
    new Intl.DateTimeFormat(language, {
      dateStyle: 'medium',
      ...(style === 'minute' && { timeStyle: 'short' }),
      timeZone: 'UTC',
    }).format(wallClock(instant))
}

export function useAge(): (seconds: number) => string {
  const { language } = useLanguage()
  return (seconds) => {
    const [value, unit] =
      seconds < 90
        ? [seconds, 'second']
        : seconds < 5400
          ? [seconds / 60, 'minute']
          : seconds < 172_800
            ? [seconds / 3600, 'hour']
            : [seconds / 86_400, 'day']
    return new Intl.NumberFormat(language, {
      style: 'unit',
      unit: unit as string,
      unitDisplay: 'short',
      maximumFractionDigits: 0,
    }).format(value as number)
  }
}
