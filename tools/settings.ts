import type { SourceName } from '../src/batch/sources/port.ts'
import { ConfigError, readConfig } from '../src/config.ts'
import { credentialsOf, keysOfAnother, twoHosted, usualRateOf } from '../src/settings/source-settings.ts'

/** What docs/settings.md says of one variable of the environment. Names and accepted forms come from config.ts itself. */
export type Setting = {
  readonly name: string
  /** As it would be written in the environment; a sentence in brackets where that cannot be. */
  readonly fallback: string
  readonly meaning: string
  /** Where a start is refused without it. */
  readonly required?: string
}

const withDatabase = 'with `DATABASE_URL`'

export const settings: Readonly<Record<string, readonly Setting[]>> = {
  Service: [
    {
      name: 'MODE',
      fallback: 'sandbox',
      meaning: '`live` takes real money and refuses everything that is for trying out.',
    },
    { name: 'HOST', fallback: '127.0.0.1', meaning: 'Address on which the API listens.' },
    { name: 'PORT', fallback: '8080', meaning: 'Port of the API; 0 takes any free one.' },
    {
      name: 'RANKLEDGER_DATA',
      fallback: '.data',
      meaning: 'Data dir: the embedded database, made-up keys, cached models.',
    },
    {
      name: 'TZ_DEFAULT',
      fallback: 'UTC',
      meaning: 'Zone of accounts that name none, of schedules and of what commands print.',
    },
    {
      name: 'BOOTSTRAP_TOKEN',
      fallback: '(in sandbox mode on a loopback `HOST`: made, and kept in the data dir; else none)',
      meaning: 'First token, which may do everything; made by `rankledger token create --print-only`.',
    },
    {
      name: 'ANSWER_WITHIN_MS',
      fallback: '15000',
      meaning:
        'How long a request about money may wait for the provider before it is answered with 202; at most `PROVIDER_TIMEOUT_MS` plus 8 seconds.',
    },
    {
      name: 'TOKEN_CONCURRENCY',
      fallback: '64',
      meaning: 'Requests of one token and scope that a process works at a time; 0 is no limit.',
    },
    {
      name: 'BILLING_RATE',
      fallback: '6000',
      meaning: 'Billing requests a minute that a process takes from one token; 0 is no limit.',
    },
    { name: 'LOG_LEVEL', fallback: 'info', meaning: 'Least level of what is logged.' },
    {
      name: 'METRICS_PORT',
      fallback: '(none)',
      meaning: 'Port of its own for `/healthz`, `/readyz` and `/metrics`.',
    },
    { name: 'METRICS_HOST', fallback: '(`HOST`)', meaning: 'Address of that port.' },
  ],
  Database: [
    {
      name: 'DATABASE_URL',
      fallback: '(the embedded PostgreSQL of the data dir)',
      meaning:
        'PostgreSQL 15 to 18, also behind a pooler. With `MODE=live` over TLS unless it is on this machine.',
      required: 'with `MODE=live`',
    },
    {
      name: 'DATABASE_URL_SESSION',
      fallback: '(`DATABASE_URL`)',
      meaning:
        'The PostgreSQL behind a pooler: locks, announcements and migrations need a session of their own.',
    },
    {
      name: 'DATABASE_URL_READ',
      fallback: '(none)',
      meaning:
        'A streaming replica of `DATABASE_URL`, for lists and lookups that may lag (docs/scaling.md). Reached as `DATABASE_URL` is: direct, or by a pooler of the same kind.',
    },
    {
      name: 'DATABASE_READ_LAG_MS',
      fallback: '10000',
      meaning: 'A replica that is further behind is not read.',
    },
    {
      name: 'DATABASE_POOL_SIZE',
      fallback: '20',
      meaning:
        'Connections of each process; a worker has 5 more over the session URL, and 3 more over this one while it predicts.',
    },
    {
      name: 'DATABASE_CONNECT_TIMEOUT_MS',
      fallback: '5000',
      meaning: 'How long a connection may take to open, or to come free.',
    },
    { name: 'DATABASE_QUERY_TIMEOUT_MS', fallback: '30000', meaning: 'How long a statement may take.' },
    {
      name: 'MIGRATION_LOCK_TIMEOUT_MS',
      fallback: '60000',
      meaning: 'How long a start waits while another process migrates.',
    },
    {
      name: 'PREPARED_STATEMENTS',
      fallback: 'on',
      meaning: '`off` behind a pooler that does not keep them.',
    },
  ],
  Secrets: [
    {
      name: 'VAULT_KEYS',
      fallback: '(made, and kept in the data dir)',
      meaning:
        'Keys that seal payment methods and contacts: the first seals, all of them open. A new one is listed second at first; the runbook says how. Keep a copy apart from the backups.',
      required: withDatabase,
    },
    {
      name: 'WEBHOOK_SECRETS',
      fallback: '(made, and kept in the data dir)',
      meaning:
        'Secrets of webhooks from the provider that `PAYMENT_PROVIDER` names, a comma list, newest first.',
      required: `${withDatabase}, unless the provider’s own variable is set or it is Toss, which signs nothing`,
    },
    {
      name: 'HINT_SECRET',
      fallback: '(none: the route is off)',
      meaning: 'Last part of `/api/billing/hints/…`, where unsigned messages of a provider arrive.',
    },
  ],
  Providers: [
    {
      name: 'PAYMENT_PROVIDER',
      fallback: 'sandbox',
      meaning: 'Provider of new payment methods. Others whose key is set go on with those they stored.',
      required: 'with `MODE=live`, and not `sandbox`',
    },
    {
      name: 'PROVIDER_SECRET_KEY',
      fallback: '(none; the sandbox has its own)',
      meaning: 'Secret key of the provider that is named; the provider’s own variable wins over it.',
      required: 'with any provider but the sandbox, unless its own variable is set',
    },
    {
      name: 'PROVIDER_BASE_URL',
      fallback: '(the provider’s own; the sandbox runs in this process)',
      meaning: 'Where the named provider is reached, such as a simulator.',
    },
    {
      name: 'PROVIDER_TIMEOUT_MS',
      fallback: '(3000 for the sandbox, 60000 for others)',
      meaning: 'How long a call to a provider may take.',
    },
    {
      name: 'SANDBOX_PORT',
      fallback: '0',
      meaning:
        'Port of `rankledger sandbox`, and of the sandbox that `serve` brings along; 0 takes any free one. Other processes and commands take any free one.',
    },
    { name: 'STRIPE_SECRET_KEY', fallback: '(none)', meaning: 'Stripe’s secret or restricted key.' },
    {
      name: 'STRIPE_WEBHOOK_SECRETS',
      fallback: '(`WEBHOOK_SECRETS` if Stripe is named)',
      meaning: 'Signing secrets of Stripe’s endpoint, newest first.',
    },
    { name: 'STRIPE_BASE_URL', fallback: '(Stripe’s own)', meaning: 'Where Stripe is reached.' },
    { name: 'TOSS_SECRET_KEY', fallback: '(none)', meaning: 'Toss Payments’ secret key.' },
    { name: 'TOSS_BASE_URL', fallback: '(Toss’ own)', meaning: 'Where Toss Payments is reached.' },
    { name: 'PORTONE_API_SECRET', fallback: '(none)', meaning: 'PortOne’s V2 API secret.' },
    {
      name: 'PORTONE_WEBHOOK_SECRETS',
      fallback: '(`WEBHOOK_SECRETS` if PortOne is named)',
      meaning: 'PortOne’s webhook secrets, newest first.',
    },
    { name: 'PORTONE_BASE_URL', fallback: '(PortOne’s own)', meaning: 'Where PortOne is reached.' },
    {
      name: 'PORTONE_STORE_ID',
      fallback: '(none)',
      meaning:
        'The store at PortOne. In sandbox mode a simulator on this machine needs none, and no channel.',
      required: 'with PortOne, also for the cards it stored before',
    },
    {
      name: 'PORTONE_CHANNEL_KEY',
      fallback: '(none)',
      meaning:
        'The channel at PortOne through which cards are collected and charged; without it a stored card is charged through the one it was collected by.',
      required: 'with `PAYMENT_PROVIDER=portone`',
    },
  ],
  Billing: [
    {
      name: 'CANCEL_LEAD_SECONDS',
      fallback: '60',
      meaning: 'How long before the next billing date a cancellation takes effect.',
    },
    {
      name: 'DUNNING_DAYS',
      fallback: '1,3,5,7',
      meaning: 'Days after a declined renewal on which it is tried again.',
    },
    {
      name: 'CATCH_UP_PERIODS',
      fallback: '1',
      meaning:
        'Missed periods that are charged after an outage; older ones are held for `rankledger backlog`. `0`: only what is charged within an hour of its date.',
    },
    {
      name: 'DISPUTE_POLICY',
      fallback: 'keep',
      meaning: '`cancel`: a disputed payment ends its subscription at once.',
    },
    {
      name: 'CHARGING',
      fallback: 'on',
      meaning: '`stopped`: a start stops charging first, as for a restored database.',
    },
    {
      name: 'SELLER_NAME',
      fallback: 'Rankledger Sandbox',
      meaning: 'Who sells; stands on every invoice.',
      required: 'with `MODE=live`',
    },
    { name: 'SELLER_ADDRESS', fallback: '(none)', meaning: 'Address on invoices.' },
    { name: 'SELLER_REGISTRATION', fallback: '(none)', meaning: 'Registration number on invoices.' },
    { name: 'SELLER_TAX_ID', fallback: '(none)', meaning: 'Tax number on invoices.' },
    {
      name: 'SELLER_LOGO',
      fallback: '(none)',
      meaning: 'File of the picture on invoices: PNG or JPEG, at most 512 KiB.',
    },
    { name: 'INVOICE_LANGUAGE', fallback: 'en', meaning: 'Language of invoices of accounts that name none.' },
  ],
  Batch: [
    { name: 'SCHEDULE_TRAINING', fallback: '30 3 * * *', meaning: 'When the classifier is trained.' },
    { name: 'SCHEDULE_PREDICTION', fallback: '30 4 * * *', meaning: 'When it predicts.' },
    { name: 'SCHEDULE_AGGREGATION', fallback: '30 0 * * *', meaning: 'When search volumes are aggregated.' },
  ],
  'Sources of ranks, volumes and trends': [
    ...entriesOf(credentialsOf).flatMap(([source, variables]) =>
      settingsOfSource(source, Object.values(variables)),
    ),
    ...entriesOf(keysOfAnother).flatMap(([source, keeper]) =>
      settingsOfSource(source, [], `that of \`${keeper}\`, whose keys open it`),
    ),
  ],
}

function entriesOf<T>(table: Readonly<Partial<Record<SourceName, T>>>): [SourceName, T][] {
  return Object.entries(table) as [SourceName, T][]
}

/** Each source is off until all of its keys are set. */
function settingsOfSource(source: SourceName, keys: readonly string[], usualUrl = 'its own'): Setting[] {
  const prefix = source.toUpperCase()
  const licence =
    source === 'naver_searchad' ? ' Its terms allow the numbers for buying and running search ads only.' : ''
  return [
    ...keys.map((name) => ({
      name,
      fallback: '(none)',
      meaning: `Opens \`${source}\`; from the environment only.${licence}`,
    })),
    ...(twoHosted.has(source)
      ? [{ name: `${prefix}_HOST`, fallback: 'hub', meaning: 'Which of its hosts the keys are for.' }]
      : []),
    {
      name: `${prefix}_BASE_URL`,
      fallback: `(${usualUrl})`,
      meaning: 'Where it is reached, such as a simulator.',
    },
    {
      name: `${prefix}_RATE`,
      fallback: `(${usualRateOf(source)}; 200 on loopback)`,
      meaning: 'Calls a second, of all processes.',
    },
    {
      name: `${prefix}_BUDGET_PER_DAY`,
      fallback: '(1000; 1000000 on loopback)',
      meaning: 'Paid calls a day of the whole installation.',
    },
    {
      name: `${prefix}_WORKSPACE_BUDGET_PER_DAY`,
      fallback: '0',
      meaning: 'Paid calls a day of each workspace; with 0 only tokens for all workspaces may track with it.',
    },
  ]
}

/** Every variable that config.ts looks at. */
export function namesRead(): string[] {
  const names = new Set<string>()
  for (const PAYMENT_PROVIDER of ['sandbox', 'stripe', 'toss', 'portone']) {
    const environment = new Proxy<Record<string, string>>(
      { PAYMENT_PROVIDER },
      {
        get(given, name) {
          names.add(String(name))
          return given[String(name)]
        },
      },
    )
    problemsOf(environment)
  }
  return [...names].sort()
}

/** What config.ts accepts, in its own words; empty where it takes any text. */
export function formOf(name: string): string {
  const known = problemsOf({})
  // No setting takes this, unless it takes everything.
  const problem = problemsOf({ [name]: '\u0001,'.repeat(301) }).find(
    (one) => one.startsWith(`${name} must be `) && !known.includes(one),
  )
  return problem ? problem.slice(`${name} must be `.length).replace(/\.$/, '') : ''
}

function problemsOf(environment: Record<string, string>): readonly string[] {
  try {
    readConfig(environment)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

/** docs/settings.md, whole. */
export function renderSettings(): string {
  const parts = Object.entries(settings).map(([title, list]) => {
    const rows = list.map(({ name, fallback, meaning, required }) => {
      const form = formOf(name)
      const shown = fallback.startsWith('(') ? fallback.slice(1, -1) : `\`${fallback}\``
      const notes = [meaning, form && `Takes ${form}.`, required && `**Required** ${required}.`]
      return `| \`${name}\` | ${shown} | ${notes.filter(Boolean).join(' ').replace(/[|<]/g, '\\$&')} |`
    })
    return `## ${title}\n\n| Setting | Default | |\n|---|---|---|\n${rows.join('\n')}\n`
  })
  return `# Settings

Every process and every command reads these variables of the environment once, at its start, completed by a \`.env\` file in its working
folder, in which keys of providers and sources, and Stripe's and PortOne's own webhook secrets, are refused. All problems are told at once. \`npm run settings\` writes this page; a test fails while it differs
from the code.

${parts.join('\n')}`
}
