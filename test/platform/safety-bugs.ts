// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these texts are source code
import type { PlantedBug } from '../simulation/planted-bugs.ts'

const access = 'test/platform/access.test.ts'
const hardening = 'test/platform/hardening.test.ts'
const tokens = 'test/platform/tokens.test.ts'
const sessions = 'test/platform/sessions.test.ts'
const fairness = 'test/platform/fairness.test.ts'
const databaseTrouble = 'test/platform/database-trouble.test.ts'
const erasure = 'test/billing/kept-answers.test.ts'
const config = 'src/config.test.ts'
const recentRanks = 'test/batch/recent-ranks.test.ts'

/** Mistakes that let somebody in or something out, each with the test that must find it: `npm run plant -- --list safety`. */
export const safetyBugs: readonly (PlantedBug & { story: string })[] = [
  {
    name: 'X-Workspace-Id is believed of everybody',
    file: 'src/platform/http/admission.ts',
    from: "(request.principal.workspace === '*' ? namedId(request.headers, 'x-workspace-id') : undefined)",
    to: "namedId(request.headers, 'x-workspace-id')",
    story: fairness,
  },
  {
    name: 'a token that is bound at all reaches every tenant',
    file: 'src/platform/access/access.ts',
    from: "return bound === '*' || bound === wanted",
    to: "return bound === '*' || (bound !== null && wanted !== '')",
    story: access,
  },
  {
    name: 'a scope is not asked for',
    file: 'src/platform/http/admission.ts',
    from: "if (scope !== 'any' && !mayUse(request.principal, scope)) throw",
    to: "if (scope === 'admin' && !mayUse(request.principal, scope)) throw",
    story: access,
  },
  {
    name: 'reading includes writing',
    file: 'src/platform/access/access.ts',
    from: "return scope.endsWith(':read') && principal",
    to: "if (principal.scopes.has(scope.replace(':write', ':read') as Scope)) return true\n  return scope.endsWith(':read') && principal",
    story: access,
  },
  {
    name: 'a revoked token goes on',
    file: 'src/platform/access/access.ts',
    from: 'if (!stored || stored.revoked_at || isExpired',
    to: 'if (!stored || isExpired',
    story: access,
  },
  {
    name: 'a token is believed for a minute',
    file: 'src/platform/access/access.ts',
    from: 'const believedForMs = 3_000',
    to: 'const believedForMs = 60_000',
    story: access,
  },
  {
    name: 'an expired token goes on',
    file: 'src/platform/access/access.ts',
    from: 'return stored.expires_at !== null && stored.expires_at <= now',
    to: 'return false',
    story: access,
  },
  {
    name: 'admin is bound to a part',
    file: 'src/platform/access/token-rights.ts',
    from: 'return isAdmin && !isBoundToAll(rights) ? undefined : rights',
    to: "return isAdmin && !isBoundToAll(rights) && account === '' ? undefined : rights",
    story: tokens,
  },
  {
    name: 'a token that reaches nobody is made without a word',
    file: 'src/cli/token.ts',
    from: 'warnOfLacking(rights)\n    return 0',
    to: 'return 0',
    story: tokens,
  },
  {
    name: 'a secret is believed from a file that others may write',
    file: 'src/platform/data-dir.ts',
    from: 'if (own !== undefined && (mode & 0o077) !== 0) throw',
    to: 'if (own === undefined && (mode & 0o077) !== 0) throw',
    story: tokens,
  },
  {
    name: 'whoever revokes a whole token is told that nobody has it',
    file: 'src/cli/token.ts',
    from: 'if (isToken(given)) return tokenIdOf(given)',
    to: 'if (isToken(given)) return given',
    story: tokens,
  },
  {
    name: 'a session acts for another site',
    file: 'src/platform/access/session.ts',
    from: "return !reads.has(method) && headers['x-console'] !== '1'",
    to: 'return false',
    story: sessions,
  },
  {
    name: 'a sign-in link works twice',
    file: 'src/platform/access/session-rows.ts',
    from: "'delete from platform.sign_in_code where hash = $1 and expires_at > clock_timestamp() returning token_id'",
    to: "'select token_id from platform.sign_in_code where hash = $1 and expires_at > clock_timestamp()'",
    story: sessions,
  },
  {
    name: 'a session outlives its token',
    file: 'src/platform/access/access.ts',
    from: 't.expires_at, t.revoked_at, s.expires_at',
    to: 't.expires_at, null as revoked_at, s.expires_at',
    story: sessions,
  },
  {
    name: 'answers that were kept survive the erasure',
    file: 'src/billing/lifecycle/erase-account.ts',
    from: 'await eraseAnswers(tx, await listAnswered(tx, accountId), now)',
    to: 'await eraseAnswers(tx, (await listAnswered(tx, accountId)).slice(0, 0), now)',
    story: erasure,
  },
  {
    name: 'what was written about a refund survives the erasure',
    file: 'src/billing/refunds/refund-rows.ts',
    from: '.set({ note: null })',
    to: ".set((row) => ({ note: row.ref('note') }))",
    story: erasure,
  },
  {
    name: 'the contact survives the erasure',
    file: 'src/billing/accounts/account-rows.ts',
    from: "await tx.deleteFrom('billing.account_contact').where('account_id', '=', accountId).execute()",
    to: '',
    story: erasure,
  },
  {
    name: 'provider keys are read from .env',
    file: 'src/settings/provider-settings.ts',
    from: '(providerKeyNames.has(name) && value?.trim()) ||',
    to: '',
    story: config,
  },
  {
    name: 'the sandbox provider opens to everybody',
    file: 'src/sandbox/secret-key.ts',
    from: 'if (!digests.some((digest) => timingSafeEqual(digest, given))) throw',
    to: 'if (!digests.some((digest) => timingSafeEqual(digest, given)) && !headers.authorization) throw',
    story: hardening,
  },
  {
    name: 'a secret in the place of a field name is said back',
    file: 'src/platform/http/field-path.ts',
    from: "ourNames.has(name) || mayBeShown(name) ? name : '<field>'",
    to: "ourNames.has(name) || mayBeShown(name) ? name : name.slice(0, 200) || '<field>'",
    story: hardening,
  },
  {
    name: 'a card in a request id is logged',
    file: 'src/platform/http/http.ts',
    from: 'request_id: loggedId(request.id),\n      method',
    to: 'request_id: request.id,\n      method',
    story: hardening,
  },
  {
    name: 'what the database says of a failed count is said to the caller',
    file: 'src/platform/http/http.ts',
    from: '(failure: unknown) => failure,',
    to: '(failure: unknown) => Promise.reject(failure),',
    story: databaseTrouble,
  },
  {
    name: 'a compressed body is read',
    file: 'src/platform/http/http.ts',
    from: "return encoding !== undefined && encoding.toLowerCase() !== 'identity'",
    to: "return encoding !== undefined && encoding.toLowerCase() === 'br'",
    story: hardening,
  },
  {
    name: 'a list that is too long is walked',
    file: 'src/platform/http/json-body.ts',
    from: 'export function parseJson(text: string): unknown {\n  requireModestShape(text)',
    to: 'export function parseJson(text: string): unknown {\n  if (text.length < 1000) requireModestShape(text)',
    story: fairness,
  },
  {
    name: 'billing has no rate',
    file: 'src/platform/http/fairness.ts',
    from: 'if (rate && request.routeOptions.url?.startsWith(ratedPrefix))',
    to: 'if (rate && request.routeOptions.url === ratedPrefix)',
    story: fairness,
  },
  {
    name: 'a connection that breaks keeps the turns of what was sent behind its first request',
    file: 'src/platform/http/fairness.ts',
    from: "socket.once('close', () => those.forEach(close))",
    to: "socket.once('close', () => those.clear())",
    story: fairness,
  },
  {
    name: 'who leaves while the token is looked up keeps a turn',
    file: 'src/platform/http/fairness.ts',
    from: 'const closed = request.raw.socket.destroyed',
    to: 'const closed = false',
    story: fairness,
  },
  {
    name: 'a lease that does not get its lock leaves its session open',
    file: 'src/platform/queue/worker-lease.ts',
    from: 'session.end().catch(() => {})\n    throw error',
    to: 'throw error',
    story: 'test/platform/queue-connections.test.ts',
  },
  {
    name: 'an unsigned notification is believed',
    file: 'src/billing/providers/standard-webhooks.ts',
    from: 'return authentic ? { eventId: id } : undefined',
    to: 'return authentic || signatures.length > 0 ? { eventId: id } : undefined',
    story: 'src/billing/providers/standard-webhooks.test.ts',
  },
  {
    name: 'an old notification is believed again',
    file: 'src/billing/providers/standard-webhooks.ts',
    from: 'const toleranceSeconds = 300',
    to: 'const toleranceSeconds = 3_000_000',
    story: 'src/billing/providers/standard-webhooks.test.ts',
  },
  {
    name: 'a page of keywords holds every rank of every series',
    file: 'src/batch/keywords/keyword-rows.ts',
    from: 'limit ${sql.lit(most + 1)}`',
    to: '`',
    story: recentRanks,
  },
  {
    name: 'the ranks of one keyword have no end',
    file: 'src/batch/keywords/keyword-rows.ts',
    from: 'limit ${sql.lit(most)}\n',
    to: '',
    story: recentRanks,
  },
  {
    name: 'a page with ranks counts as a short one',
    file: 'src/batch/keywords/keyword-routes.ts',
    from: "longWith: 'days', ",
    to: '',
    story: recentRanks,
  },
  {
    name: 'the best places of a keyword have no end',
    file: 'src/batch/ranks/best-rank-rows.ts',
    from: 'limit ${sql.lit(mostSeries)}',
    to: '',
    story: 'test/batch/ranks.test.ts',
  },
]
