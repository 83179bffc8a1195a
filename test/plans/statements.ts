import type pg from 'pg'

export type Statement = { readonly text: string; readonly samples: unknown[][] }

const mostSamples = 4

/** Writes down every statement that goes through a pool, with some of the values it was sent with. */
export function listenTo(pool: pg.Pool): { heard(): Statement[]; stop(): void } {
  const heard = new Map<string, Statement>()
  const listened = new WeakSet<pg.PoolClient>()
  let on = true
  const listen = (client: pg.PoolClient) => {
    if (listened.has(client)) return
    listened.add(client)
    const send = client.query.bind(client) as (...args: unknown[]) => unknown
    // biome-ignore lint/suspicious/noExplicitAny: the driver takes a statement in six forms
    client.query = ((...args: any[]) => {
      const [first, second] = args
      const text: unknown = typeof first === 'string' ? first : first?.text
      const values: unknown = Array.isArray(second) ? second : first?.values
      if (on && typeof text === 'string' && typeof first?.submit !== 'function')
        note(text, Array.isArray(values) ? values : [])
      return send(...args)
    }) as typeof client.query
  }
  const note = (text: string, values: unknown[]) => {
    const known = heard.get(text) ?? { text, samples: [] }
    if (known.samples.length < mostSamples) known.samples.push([...values])
    heard.set(text, known)
  }
  pool.on('acquire', listen)
  return {
    heard: () =>
      [...heard.values()].filter(({ text }) => /^\s*\(?(select|insert|update|delete|with)\b/i.test(text)),
    stop() {
      on = false
      pool.off('acquire', listen)
    },
  }
}

export type PlanNode = {
  readonly 'Node Type': string
  readonly Schema?: string
  readonly 'Relation Name'?: string
  readonly 'Plan Rows': number
  readonly 'Total Cost': number
  readonly 'Index Cond'?: string
  readonly Filter?: string
  readonly 'Sort Key'?: string[]
  readonly Plans?: PlanNode[]
}

/** The plan that the server makes for a statement with these values. It is not run. */
export async function planOf(db: pg.PoolClient, text: string, values: unknown[]): Promise<PlanNode> {
  const { rows } = await db.query(`explain (verbose, format json) ${text}`, values)
  return rows[0]['QUERY PLAN'][0].Plan
}

/** What of a plan grows with a table: a scan of all of it, or a sort of a part that grows. */
export function growingParts(plan: PlanNode, grown: ReadonlySet<string>, limited = false): string[] {
  const isLimited = limited || plan['Node Type'] === 'Limit'
  const relation = plan['Relation Name'] && `${plan.Schema}.${plan['Relation Name']}`
  const found: string[] = []
  if (plan['Node Type'] === 'Seq Scan' && relation !== undefined && grown.has(relation))
    found.push(`reads all of ${relation}${plan.Filter ? ` where ${plan.Filter}` : ''}`)
  const input = plan.Plans?.[0]?.['Plan Rows'] ?? 0
  if (plan['Node Type'] === 'Sort' && input > mostSorted)
    found.push(`sorts ${input} rows by ${plan['Sort Key']?.join(', ')}`)
  if (relation !== undefined && grown.has(relation) && !isLimited && plan['Plan Rows'] > mostSorted)
    found.push(`reads ${plan['Plan Rows']} rows of ${relation}`)
  return [...found, ...(plan.Plans ?? []).flatMap((part) => growingParts(part, grown, isLimited))]
}

/** More rows than any page, any batch of a sweep and any body hold. */
const mostSorted = 2_500
