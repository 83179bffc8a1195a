import type { Provider } from './port.ts'
import { portoneProvider } from './portone/portone.ts'
import { sandboxProvider } from './sandbox.ts'
import { tossProvider } from './toss/toss.ts'

/** What an adapter is built from: how its provider is reached, and how long a call may take. */
export type AdapterSettings = {
  readonly name: string
  readonly secretKey: string | undefined
  readonly baseUrl: string | undefined
  readonly webhookSecrets: readonly string[]
  readonly storeId: string | undefined
  readonly channelKey: string | undefined
  readonly timeoutMs: number
}

type Adapter = (settings: AdapterSettings) => Provider | Promise<Provider>

/** One line for each provider that can be spoken to. */
const adapters: Readonly<Record<string, Adapter>> = {
  sandbox: ({ baseUrl, secretKey, timeoutMs }) =>
    sandboxProvider({ baseUrl: baseUrl!, secretKey: secretKey!, timeoutMs }),
  // Its library alone is as large as the rest of billing, so only an installation that speaks to Stripe loads it.
  stripe: async ({ baseUrl, secretKey, webhookSecrets, timeoutMs }) => {
    const { stripeProvider } = await import('./stripe/stripe.ts')
    return stripeProvider({
      ...(baseUrl && { baseUrl }),
      secretKey: secretKey!,
      webhookSecrets,
      timeoutMs,
    })
  },
  toss: ({ baseUrl, secretKey, timeoutMs }) =>
    tossProvider({ ...(baseUrl && { baseUrl }), secretKey: secretKey!, timeoutMs }),
  portone: ({ baseUrl, secretKey, storeId, channelKey, webhookSecrets, timeoutMs }) =>
    portoneProvider({
      ...(baseUrl && { baseUrl }),
      apiSecret: secretKey!,
      storeId: storeId!,
      ...(channelKey && { channelKey }),
      webhookSecrets,
      timeoutMs,
    }),
}

export async function buildAdapter(settings: AdapterSettings): Promise<Provider> {
  const build = adapters[settings.name]
  if (!build)
    throw new Error(
      `PAYMENT_PROVIDER=${settings.name} has no adapter in this release; docs/providers.md tells what is there.`,
    )
  return build(settings)
}
