import pg from 'pg'

export type Statement = {
  readonly text: string
  readonly samples: unknown[][]
  /** Sent under a name at least once: the server may plan it once for all values. */
  readonly isPrepared: boolean
}

const mostSamples = 4

/**
 * Writes down every statement that this process sends, over whichever pool or connection of its own, with some of the values
 * it was sent with. A cursor stands for what it is declared for.
 */
export function listen(): { heard(): Statement[]; stop(): void } {
  const heard = new Map<string, Statement>()
  const note = (sent: string, values: unknown[], isNamed: boolean) => {
    const text = sent.replace(/^\s*declare\s+\S+[\s\w]*?\scursor\s+for\s/i, '')
    if (!/^\s*\(?(select|insert|update|delete|with)\b/i.test(text)) return
    const known = heard.get(text)
    const samples = known?.samples ?? []
    if (samples.length < mostSamples) samples.push([...values])
    heard.set(text, { text, samples, isPrepared: isNamed || known?.isPrepared === true })
  }
  // Every pool's own kind of client ends in this one.
  const driver = pg.Client.prototype as unknown as { query(...args: unknown[]): unknown }
  const send = driver.query
  driver.query = function (...args: unknown[]) {
    // biome-ignore lint/suspicious/noExplicitAny: the driver takes a statement in six forms
    const [first, second] = args as any[]
    const text: unknown = typeof first === 'string' ? first : first?.text
    const values: unknown = Array.isArray(second) ? second : first?.values
    if (typeof text === 'string' && typeof first?.submit !== 'function')
      note(text, Array.isArray(values) ? values : [], typeof first?.name === 'string')
    return send.apply(this, args)
  }
  return {
    heard: () => [...heard.values()],
    stop() {
      driver.query = send
    },
  }
}

export type PlanNode = {
  readonly 'Node Type': string
  readonly Schema?: string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Plan Rows': number
  readonly 'Total Cost': number
  readonly 'Index Cond'?: string
  readonly Filter?: string
  readonly 'Sort Key'?: string[]
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly Plans?: PlanNode[]
}

/** The plan that the server makes for a statement with these values. It is not run. */
export async function planOf(db: pg.ClientBase, text: string, values: unknown[]): Promise<PlanNode> {
  return planIn(await db.query(`explain (verbose, format json) ${text}`, values))
}

/** The plan that a prepared statement may get once and for all, whatever its values. */
export async function genericPlanOf(db: pg.ClientBase, text: string): Promise<PlanNode> {
  return planIn(await db.query(`explain (generic_plan, verbose, format json) ${text}`))
}

/**
 * What a statement did when it was run, and taken back. Undefined: it does not run a second time, because what it writes is
 * there.
 */
export async function runOf(
  db: pg.ClientBase,
  text: string,
  values: unknown[],
): Promise<PlanNode | undefined> {
  await db.query('begin')
  try {
    return planIn(await db.query(`explain (analyze, timing off, verbose, format json) ${text}`, values))
  } catch (error) {
    if (/^23/.test((error as { code?: string }).code ?? '')) return undefined
    throw error
  } finally {
    await db.query('rollback')
  }
}

/**
 * Whether the server takes the plan for all values once it has planned a statement for some: by its own rule, which counts the
 * planning that it saves (`choose_custom_plan`).
 */
export function isTakenForAll(generic: PlanNode, forValues: readonly PlanNode[]): boolean {
  const planning = 2.5 * (relationsIn(generic) + 1)
  const costs = forValues.map((plan) => plan['Total Cost'] + planning)
  return generic['Total Cost'] < costs.reduce((sum, cost) => sum + cost, 0) / costs.length
}

function relationsIn(plan: PlanNode): number {
  const own = plan['Relation Name'] === undefined ? 0 : 1
  return (plan.Plans ?? []).reduce((sum, part) => sum + relationsIn(part), own)
}

function planIn({ rows }: pg.QueryResult): PlanNode {
  return rows[0]['QUERY PLAN'][0].Plan
}

/**
 * What of a plan grows with a table: a scan of all of it, a sort of a part that grows, or so many rows read as no page, no
 * batch of a sweep and no body holds. Of a plan that was run also the rows that were read for nothing.
 */
export function growingParts(plan: PlanNode, grown: ReadonlySet<string>, isLimited = false): string[] {
  const relation = plan['Relation Name'] && `${plan.Schema}.${plan['Relation Name']}`
  const by = plan.Filter ? ` where ${plan.Filter}` : ''
  const found: string[] = []
  if (relation !== undefined && grown.has(relation)) {
    const read = rowsRead(plan)
    if (plan['Node Type'] === 'Seq Scan') found.push(`reads all of ${relation}${by}`)
    else if (read > mostRows) found.push(`has read ${read} rows of ${relation}${by}`)
    else if (!isLimited && plan['Plan Rows'] > mostRows)
      found.push(`reads ${plan['Plan Rows']} rows of ${relation}`)
  }
  const input = plan.Plans?.[0]
  const sorted = Math.max(input?.['Plan Rows'] ?? 0, input?.['Actual Rows'] ?? 0)
  if (plan['Node Type'] === 'Sort' && sorted > mostRows)
    found.push(`sorts ${sorted} rows by ${plan['Sort Key']?.join(', ')}`)
  // What costs less than a part of it does not expect to see that part's end.
  const endsEarly = (part: PlanNode) => plan['Total Cost'] < part['Total Cost']
  return [
    ...found,
    ...(plan.Plans ?? []).flatMap((part) => growingParts(part, grown, isLimited || endsEarly(part))),
  ]
}

/** What a part of a plan has read, be it to keep it or to find that it does not fit. */
function rowsRead(plan: PlanNode): number {
  const each =
    (plan['Actual Rows'] ?? 0) +
    (plan['Rows Removed by Filter'] ?? 0) +
    (plan['Rows Removed by Index Recheck'] ?? 0)
  return Math.round(each * (plan['Actual Loops'] ?? 0))
}

/** More rows than any page, any batch of a sweep and any body hold. */
const mostRows = 2_500
