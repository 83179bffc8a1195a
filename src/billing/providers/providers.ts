import { absentProvider } from './absent-provider.ts'
import type { Provider } from './port.ts'

/** The payment providers of this installation. */
export type Providers = {
  /** New payment methods go to it. */
  readonly forNew: Provider
  /** Those that can be asked, that for new payment methods first. */
  readonly all: readonly Provider[]
  /** The one of a stored payment method or payment. Without keys for it, one that can be asked nothing. */
  named(name: string): Provider
}

/** `onMissing` is told whenever one is asked whose keys are not set. */
export function providersOf(
  [forNew, ...others]: readonly [Provider, ...Provider[]],
  onMissing: (name: string) => Promise<void>,
): Providers {
  const all = [forNew, ...others]
  const known = new Map(all.map((provider) => [provider.name, provider]))
  return {
    forNew,
    all,
    named(name) {
      const provider = known.get(name) ?? absentProvider(name, () => onMissing(name))
      known.set(name, provider)
      return provider
    },
  }
}
