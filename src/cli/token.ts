import { loadConfig } from '../config.ts'
import type { Foundation } from '../foundation.ts'
import { type Scope, scopes } from '../platform/access/access.ts'
import { isToken, newToken, tokenIdOf } from '../platform/access/token.ts'
import { expiryOf, lackingOf, type Rights, rightsOf, tokenStatus } from '../platform/access/token-rights.ts'
import { insertToken, listTokens, revokeToken, rotateToken } from '../platform/access/token-rows.ts'
import { callerIdPattern } from '../platform/id.ts'
import { showOnce } from '../platform/log/show-once.ts'
import { addDuration, parseDuration, renderInstant } from '../platform/time.ts'
import {
  type Command,
  CommandFailed,
  parseFlags,
  parseOnlyFlags,
  print,
  printJson,
  printTable,
  UsageError,
  withFoundation,
} from './command.ts'
import { readLine } from './read-line.ts'

export const token: Command = {
  summary: 'Create, list, rotate and revoke access tokens',
  usage: `rankledger token create --scope SCOPE … [--workspace ID|*] [--account ID|*] [--name TEXT] [--expires P90D|never] [--json]
rankledger token create --print-only [--json]      make a token for BOOTSTRAP_TOKEN, store nothing
rankledger token list [--json]
rankledger token rotate TOKEN_ID [--overlap PT24H] [--expires P90D|never] [--json]
rankledger token revoke TOKEN_ID [--json]

Scopes: ${scopes.join(' ')}. admin is for all workspaces and accounts, never for one.
Billing scopes reach the data of --account, batch scopes that of --workspace: ID is one, * is all, and without the flag it is none.
A token is shown once, when it is made. With MODE=live it expires after a year unless --expires says otherwise.
rotate makes another with the same rights; the old one goes on for --overlap. revoke ends one at once: within 5
seconds everywhere. Both take the id that list shows, or the token itself, which they do not print.`,

  async run(args) {
    const [verb, ...rest] = args
    if (verb === 'create') return create(rest)
    if (verb === 'list') return list(rest)
    if (verb === 'rotate') return rotate(rest)
    if (verb === 'revoke') return revoke(rest)
    throw new UsageError('Say what to do with tokens: create, list, rotate or revoke.')
  },
}

async function create(args: string[]): Promise<number> {
  const { values } = parseOnlyFlags(args, {
    scope: { type: 'string', multiple: true },
    workspace: { type: 'string' },
    account: { type: 'string' },
    name: { type: 'string' },
    expires: { type: 'string' },
    'print-only': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  })
  if (values['print-only']) return printOnly(values)
  const made = makeToken()
  const wanted = readScopes(values.scope ?? [])
  const name = readLine('--name', values.name ?? '', 200, 0)
  const rights = rightsOf(wanted, {
    workspace: readBinding('--workspace', values.workspace),
    account: readBinding('--account', values.account),
  })
  if (!rights)
    throw new UsageError(
      'admin concerns the whole installation: it takes no --workspace and no --account but *.',
    )
  return withFoundation('token', async (app) => {
    const now = app.clock()
    await insertToken(app.pool, made, {
      ...rights,
      name,
      createdAt: now,
      expiresAt: readExpiry(values.expires, now, app),
    })
    show(made, values.json)
    warnOfLacking(rights)
    return 0
  })
}

/** Nothing is stored, so there is nowhere to keep rights, a name or an end: such a token may do everything. */
function printOnly({ 'print-only': _, json, ...others }: { 'print-only': boolean; json: boolean }): number {
  const [other] = Object.keys(others)
  if (other !== undefined)
    throw new UsageError(`--print-only takes no other option than --json, so leave out --${other}.`)
  show(makeToken(), json)
  return 0
}

/** Such a token is made all the same: it may be meant for plans or models alone. */
function warnOfLacking(rights: Rights): void {
  const areas = { account: 'billing', workspace: 'batch' }
  for (const lacking of lackingOf(rights))
    process.stderr.write(
      `Warning: this token has ${areas[lacking]} scopes but no ${lacking}, so it reaches nobody's data: add --${lacking} ID, or '*' for all.\n`,
    )
}

function makeToken(): string {
  return newToken(loadConfig().mode === 'live' ? 'live' : 'test')
}

function show(made: string, asJson: boolean): void {
  showOnce(asJson ? JSON.stringify({ token_id: tokenIdOf(made), token: made }) : made)
}

async function list(args: string[]): Promise<number> {
  const { values } = parseOnlyFlags(args, { json: { type: 'boolean', default: false } })
  return withFoundation('token', async (app) => {
    const tokens = (await listTokens(app.pool)).reverse()
    const time = (at: Date | null) => (at ? renderInstant(at, app.config.timeZone) : null)
    if (values.json) {
      printJson({
        tokens: tokens.map((one) => ({
          token_id: one.id,
          name: one.name,
          scopes: one.scopes,
          workspace: one.workspace,
          account: one.account,
          created_at: time(one.createdAt),
          created_by: one.createdBy,
          last_used_at: time(one.lastUsedAt),
          expires_at: time(one.expiresAt),
          revoked_at: time(one.revokedAt),
          replaced_by: one.replacedBy,
        })),
      })
    } else {
      printTable(
        ['TOKEN', 'NAME', 'SCOPES', 'WORKSPACE', 'ACCOUNT', 'CREATED', 'BY', 'LAST USED', 'STATE'],
        tokens.map((one) => [
          one.id,
          one.name,
          one.scopes.join(','),
          one.workspace ?? '-',
          one.account ?? '-',
          time(one.createdAt) ?? '',
          one.createdBy,
          time(one.lastUsedAt) ?? 'never',
          tokenStatus(one, app.clock()),
        ]),
      )
    }
    return 0
  })
}

async function rotate(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    overlap: { type: 'string', default: 'PT24H' },
    expires: { type: 'string' },
    json: { type: 'boolean', default: false },
  })
  const id = readId(positionals)
  const made = makeToken()
  return withFoundation('token', async (app) => {
    const now = app.clock()
    const overlap = parseDuration(values.overlap)
    const until = overlap && addDuration(now, overlap, app.config.timeZone)
    if (!until || until < now)
      throw new UsageError('--overlap takes an ISO 8601 duration such as PT24H or PT0S.')
    const expiresAt = readExpiry(values.expires, now, app)
    if (!(await rotateToken(app.pool, id, made, { now, actor: 'operator', until, expiresAt })))
      throw noSuch(id)
    show(made, values.json)
    return 0
  })
}

async function revoke(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, { json: { type: 'boolean', default: false } })
  const id = readId(positionals)
  return withFoundation('token', async (app) => {
    if (!(await revokeToken(app.pool, id, app.clock()))) throw noSuch(id)
    if (values.json) printJson({ token_id: id, outcome: 'revoked' })
    else print(`Token ${id} is revoked; every process refuses it within 5 seconds.`)
    return 0
  })
}

function noSuch(id: string): CommandFailed {
  return new CommandFailed(`No valid token has the id ${id}; see \`rankledger token list\`.`)
}

/** The id, also from a whole token: whoever holds a leaked one has nothing else at hand. What is neither is not said back. */
function readId([given, ...more]: readonly string[]): string {
  if (given === undefined || more.length > 0)
    throw new UsageError('Name one token id; `rankledger token list` shows them.')
  if (isToken(given)) return tokenIdOf(given)
  if (/^[0-9A-Za-z]{12}$/.test(given)) return given
  throw new CommandFailed(
    'No valid token has such an id: it is 12 letters and digits; see `rankledger token list`.',
  )
}

function readScopes(given: readonly string[]): Scope[] {
  const wanted = given.flatMap((item) => item.split(/[ ,]+/)).filter((item) => item !== '')
  if (wanted.length === 0) throw new UsageError('Give at least one --scope.')
  const unknown = wanted.find((scope) => !(scopes as readonly string[]).includes(scope))
  if (unknown !== undefined) throw new UsageError(`There is no such scope; choose from ${scopes.join(' ')}.`)
  return [...new Set(wanted)] as Scope[]
}

function readBinding(flag: string, value: string | undefined): string | null {
  if (value === undefined) return null
  if (value !== '*' && !callerIdPattern.test(value))
    throw new UsageError(`${flag} takes * or 1 to 64 of A-Za-z0-9_.:-`)
  return value
}

function readExpiry(text: string | undefined, now: Date, app: Foundation): Date | null {
  const expiresAt = expiryOf(text, now, app.config)
  if (expiresAt === undefined)
    throw new UsageError('--expires takes an ISO 8601 duration such as P90D, or never.')
  return expiresAt
}
