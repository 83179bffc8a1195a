import { dataOf, errorCodeOf, type Facts, lastStepOf, mayHaveWorked } from './facts.ts'
import type { RequestEntry } from './history.ts'
import { groupBy } from './lists.ts'

const keptFor = 30 * 86_400_000
const kept = new Set([200, 201, 402])

/** A repeat gets the first final answer to the byte, whichever it was once a 202 was told; or is told that it was erased. */
export function repeatsAgree(facts: Facts): string[] {
  const keyed = facts.requests.filter(({ key }) => key !== undefined)
  return [...groupBy(keyed, ({ path, key }) => `${path} ${key}`)].flatMap(([name, entries]) => {
    const first = entries[0]!
    const live = entries.filter(({ at, ended }) => (ended?.at ?? at) < first.at + keptFor)
    const same = live.filter(({ body }) => JSON.stringify(body) === JSON.stringify(first.body))
    const begun = same.find(({ answer }) => answer?.status === 202)
    const final = same.find((entry) => isFinal(facts, entry, begun))
    return [
      ...(begun ? [...beginsAnew(begun, same), ...giveUp(begun, same)] : []),
      ...(final ? changes(facts, name, final, live) : []),
      ...erasedForNothing(facts, same),
      ...toldInSpiteOfErasure(facts, same),
    ].map((detail) => `${name}: ${detail}`)
  })
}

/** Without a 202 only a few answers are kept. After one, everything is that is an answer to the work itself. */
function isFinal(facts: Facts, entry: RequestEntry, begun: RequestEntry | undefined): boolean {
  const { answer } = entry
  if (!answer) return false
  if (kept.has(answer.status)) return true
  const promised = begun !== undefined && entry.step > lastStepOf(begun)
  if (!promised || answer.status < 400 || answer.status === 500) return false
  return !['request_in_progress', ...erased, ...away(facts)].includes(errorCodeOf(entry)!)
}

const erased = ['answer_erased']
const away = ({ outages }: Facts) => (outages ? ['service_unavailable'] : [])

/** After a 202 a repeat goes on with the same work; it never starts another. */
function beginsAnew(begun: RequestEntry, entries: readonly RequestEntry[]): string[] {
  const idOf = (entry: RequestEntry) => dataOf(entry)?.refund_id ?? dataOf(entry)?.subscription_id
  // A card that a trial was offered may come second, or be too late because the trial was cancelled.
  const mayBeSecond = isTrial(dataOf(begun))
  const fresh = new Set([
    ...(mayBeSecond ? [] : ['subscription_exists']),
    'refund_in_doubt',
    'nothing_to_refund',
    'refund_exceeds_remaining',
  ])
  return entries
    .filter((entry) => entry.answer !== null && entry.step > lastStepOf(begun))
    .filter((entry) => fresh.has(errorCodeOf(entry) ?? '') || (dataOf(entry) && idOf(entry) !== idOf(begun)))
    .map((entry) => `#${entry.step} began anew after #${begun.step}`)
}

function isTrial({ status, trial_ends_at, next_billing_at }: ReturnType<typeof dataOf>): boolean {
  return status === 'trialing' || (status === 'canceling' && trial_ends_at === next_billing_at)
}

/** What was promised is not given up because the provider cannot be reached: nobody is there to ask anew. */
function giveUp(begun: RequestEntry, entries: readonly RequestEntry[]): string[] {
  return entries
    .filter((entry) => entry.step > lastStepOf(begun) && errorCodeOf(entry) === 'provider_unavailable')
    .map((entry) => `#${entry.step} was given up after #${begun.step} had promised it`)
}

/** What was told as final stays, for everybody, as long as keys are kept. */
function changes(
  facts: Facts,
  name: string,
  final: RequestEntry,
  entries: readonly RequestEntry[],
): string[] {
  const { keptAnswers, now } = facts
  const { status, text } = final.answer!
  const found: string[] = []
  const wasErased = erasuresOf(facts, final).length > 0
  const path = name.split(' ')[0]!
  const stored = keptAnswers.some(
    (one) => one.status === status && one.scope.endsWith(` ${path}`) && (one.text === text || one.erased),
  )
  if (!stored && !wasErased && now < entries[0]!.at + keptFor) found.push(`#${final.step} was not kept`)
  for (const entry of entries) {
    const { answer, step, body } = entry
    if (!answer || step <= lastStepOf(final)) {
      const differs = answer && kept.has(answer.status) && answer.text !== text
      if (differs) found.push(`#${step} and #${final.step} differ`)
      continue
    }
    if (away(facts).includes(errorCodeOf(entry) ?? '')) continue
    if (JSON.stringify(body) !== JSON.stringify(final.body)) {
      if (answer.status !== 422) found.push(`#${step} used it for something else and got ${answer.status}`)
      continue
    }
    if (errorCodeOf(entry) === 'answer_erased') {
      const [detail] = JSON.parse(answer.text).error.details
      if (detail.code !== String(status)) found.push(`#${step} tells of ${detail.code} instead of ${status}`)
      continue
    }
    if (answer.text !== text || answer.status !== status)
      found.push(`#${step} got ${named(entry)} after #${final.step} was final with ${named(final)}`)
    else if (!answer.replayed) found.push(`#${step} is not marked as replayed`)
  }
  return found
}

function named(entry: RequestEntry): string {
  return `${entry.answer!.status} ${errorCodeOf(entry) ?? ''}`.trimEnd()
}

/** An answer is erased with its account and at no other time; once it is gone it stays gone. */
function erasedForNothing(facts: Facts, entries: readonly RequestEntry[]): string[] {
  const gone = entries.filter((entry) => errorCodeOf(entry) === 'answer_erased')
  const since = gone[0]
  if (!since) return []
  const back = entries.filter(
    (entry) => entry.step > lastStepOf(since) && entry.answer && entry.answer.status < 400,
  )
  return [
    ...gone
      .filter((entry) => !erasuresOf(facts, entry).some(({ step }) => step <= lastStepOf(entry)))
      .map(({ step }) => `#${step} was erased by nobody`),
    ...back.map(({ step }) => `#${step} got an answer that #${since.step} was told is erased`),
  ]
}

/**
 * What was told before an erasure is not told again after it. Who is told to wait is told of what is there now, so that
 * only the words that went with the account must be missing.
 */
function toldInSpiteOfErasure(facts: Facts, entries: readonly RequestEntry[]): string[] {
  const [erasure] = erasuresOf(facts, entries[0]!).filter(({ answer }) => answer?.status === 200)
  if (!erasure) return []
  const before = entries.filter((entry) => lastStepOf(entry) < erasure.step && entry.answer)
  return entries
    .filter((entry) => entry.step > lastStepOf(erasure))
    .filter(({ answer, body }) => {
      if (answer?.status === 202) return saysAgain(answer.text, body)
      return answer?.replayed && before.some((one) => one.answer!.text === answer.text)
    })
    .map(({ step }) => `#${step} got what #${erasure.step} had erased`)
}

/** Whether an answer holds what its request said about a person. */
function saysAgain(text: string, body: RequestEntry['body']): boolean {
  const { customer, note } = body as { customer?: { email?: string; name?: string }; note?: string }
  return [customer?.email, customer?.name, note].some((word) => word !== undefined && text.includes(word))
}

/** Requests that may have erased the account that this one is about. */
function erasuresOf(facts: Facts, { body }: RequestEntry): RequestEntry[] {
  const { account_id, subscription_id, invoice_id } = body as Record<string, string | undefined>
  const account =
    account_id ??
    facts.subscriptions.find(({ id }) => id === subscription_id)?.account_id ??
    facts.invoices.find(({ id }) => id === invoice_id)?.account_id
  return facts.allRequests.filter(
    (one) => one.method === 'DELETE' && one.path.endsWith(`/accounts/${account}`) && mayHaveWorked(one),
  )
}

/** Whoever changes the vault key step by step leaves nothing behind that a process cannot read. */
export function sealedOpens({ sealed }: Facts): string[] {
  return sealed.filter(({ fault }) => fault !== undefined).map(({ row, fault }) => `${row}: ${fault}`)
}

// Where time goes by, what was begun just before an erasure may be written just after it.
const besideMs = 1_000

/** Of an erased account nothing is left that was there before, and of a card that is not used nothing at all. */
export function erasureHolds({ accounts, sealed, methods, refunds, subscriptions }: Facts): string[] {
  const erasedAt = new Map(accounts.map(({ id, erased_at }) => [id, erased_at?.getTime() ?? 0]))
  const isOlder = (account: string | null, at: Date | null) =>
    at !== null && at.getTime() + besideMs < (erasedAt.get(account ?? '') ?? 0)
  return [
    ...sealed.filter((one) => isOlder(one.accountId, one.at)).map(({ row }) => `${row} is still there`),
    ...methods
      .filter(({ state, is_sealed }) => state === 'dropped' && is_sealed)
      .map(({ id }) => `${id} was dropped and is kept`),
    ...refunds
      .filter(({ account_id, note, created_at }) => note !== null && isOlder(account_id, created_at))
      .map(({ id }) => `${id} still has its note`),
    ...subscriptions
      .filter(
        ({ account_id, cancel_note, canceled_at }) =>
          cancel_note !== null && isOlder(account_id, canceled_at),
      )
      .map(({ id }) => `${id} still has its reason`),
  ]
}

/** Also where the database has forgotten that it was erased: whatever a person said before that is nowhere any more. */
export function erasedTextIsGone({ allRequests, sealed }: Facts): string[] {
  const erasures = allRequests.filter(({ method, answer }) => method === 'DELETE' && answer?.status === 200)
  return erasures.flatMap((erasure) => {
    const account = erasure.path.split('/').at(-1)
    const own = allRequests.filter(
      ({ path, body }) => path.endsWith(`/${account}`) || bodyOf(body).account_id === account,
    )
    const isOver = (one: RequestEntry) =>
      lastStepOf(one) < erasure.step && one.answer !== null && one.answer.status < 500
    // Whoever says it once more may be heard.
    const again = own.filter((one) => !isOver(one)).flatMap(textsOf)
    const told = own
      .filter(isOver)
      .flatMap(textsOf)
      .filter((text) => !again.includes(text))
    return sealed
      .filter(({ accountId, text }) => accountId === account && told.some((one) => text?.includes(one)))
      .map(({ row }) => `${row} holds what was told before #${erasure.step}`)
  })
}

function textsOf({ body }: RequestEntry): string[] {
  const { customer, payment_method } = bodyOf(body)
  const all = [customer?.email, payment_method?.billing_key, payment_method?.auth_key]
  return all.filter((text) => text !== undefined)
}

function bodyOf(body: unknown): {
  account_id?: string
  customer?: { email?: string }
  payment_method?: { billing_key?: string; auth_key?: string }
} {
  return (body ?? {}) as ReturnType<typeof bodyOf>
}

/** Nobody but a later request, or an erasure, takes away what an acknowledged one said of the person. */
export function contactsAreTheNewest({ requests, allRequests, sealed }: Facts): string[] {
  const emailOf = ({ body }: RequestEntry) => (body as { customer?: { email: string } }).customer?.email
  const given = requests.filter(
    (entry) => (entry.path === '/api/billing/subscribe' || entry.method === 'PUT') && emailOf(entry),
  )
  const accountOf = ({ path, body }: RequestEntry) =>
    (body as { account_id?: string }).account_id ?? path.split('/').at(-1)!
  return [...groupBy(given, accountOf)].flatMap(([account, entries]) => {
    const done = entries.filter(
      ({ answer }) => answer && [200, 201, 202, 402].includes(answer.status) && !answer.replayed,
    )
    const last = done.at(-1)
    if (!last) return []
    const later = (one: RequestEntry) => one !== last && lastStepOf(one) >= last.step
    const erased = allRequests.some(
      (one) =>
        one.method === 'DELETE' &&
        one.path.endsWith(`/accounts/${account}`) &&
        mayHaveWorked(one) &&
        later(one),
    )
    const stored = sealed.find(({ row }) => row === `account_contact:${account}`)
    if (!stored) return erased ? [] : [`${account} has none`]
    const email = stored.text === undefined ? undefined : JSON.parse(stored.text).email
    const possible = [last, ...entries.filter(later)].map(emailOf)
    return possible.includes(email) ? [] : [`${account} has an older one than #${last.step}`]
  })
}
