import type { ProviderCheck } from './port.ts'

const toleranceMs = 120_000

/**
 * Holds this machine's clock against the provider's, by the `Date` that stands on its answer. Real time, because the sandbox's
 * clock may have been moved, and signatures do not follow it.
 */
export function clockCheck(date: string | undefined): ProviderCheck {
  const theirs = Date.parse(date ?? '')
  if (Number.isNaN(theirs))
    return { subject: 'clock', ok: false, message: 'The provider gave no time to compare with.' }
  const ahead = Math.round((Date.now() - theirs) / 1000)
  return Math.abs(ahead) * 1000 <= toleranceMs
    ? { subject: 'clock', ok: true, message: 'The clocks agree.' }
    : {
        subject: 'clock',
        ok: false,
        message: `This clock is ${Math.abs(ahead)} s ${ahead > 0 ? 'ahead of' : 'behind'} the provider's; set it by NTP.`,
      }
}
