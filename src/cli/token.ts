import type { App } from '../app.ts'
import { loadConfig } from '../config.ts'
import { type Scope, scopes } from '../platform/access.ts'
import { callerIdPattern } from '../platform/id.ts'
import { showOnce } from '../platform/log/show-once.ts'
import { addDuration, parseDuration, renderInstant } from '../platform/time.ts'
import { newToken, tokenIdOf } from '../platform/token.ts'
import { insertToken, listTokens, revokeToken, type StoredToken } from '../platform/token-rows.ts'
import {
  type Command,
  CommandFailed,
  parseFlags,
  print,
  printJson,
  printTable,
  UsageError,
  withApp,
} from './command.ts'

export const token: Command = {
  summary: 'Create, list and revoke access tokens',
  usage: `rankledger token create --scope SCOPE … [--workspace ID|*] [--account ID|*] [--name TEXT] [--expires P90D] [--json]
rankledger token create --print-only      make a token for BOOTSTRAP_TOKEN, store nothing
rankledger token list [--json]
rankledger token revoke TOKEN_ID

Scopes: ${scopes.join(' ')}. A token is shown once, when it is made.`,

  async run(args) {
    const [verb, ...rest] = args
    if (verb === 'create') return create(rest)
    if (verb === 'list') return list(rest)
    if (verb === 'revoke') return revoke(rest)
    throw new UsageError('Say what to do with tokens: create, list or revoke.')
  },
}

async function create(args: string[]): Promise<number> {
  const { values } = parseFlags(args, {
    scope: { type: 'string', multiple: true, default: [] },
    workspace: { type: 'string' },
    account: { type: 'string' },
    name: { type: 'string', default: '' },
    expires: { type: 'string' },
    'print-only': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  })
  const made = newToken(loadConfig().mode === 'live' ? 'live' : 'test')
  if (values['print-only']) {
    showOnce(made)
    return 0
  }
  const grant = {
    scopes: readScopes(values.scope),
    workspace: readBinding('--workspace', values.workspace),
    account: readBinding('--account', values.account),
    name: values.name,
  }
  return withApp('token', async (app) => {
    const now = app.clock()
    await insertToken(app.pool, made, {
      ...grant,
      createdAt: now,
      expiresAt: readExpiry(values.expires, now, app),
    })
    showOnce(values.json ? JSON.stringify({ token_id: tokenIdOf(made), token: made }) : made)
    return 0
  })
}

async function list(args: string[]): Promise<number> {
  const { values } = parseFlags(args, { json: { type: 'boolean', default: false } })
  return withApp('token', async (app) => {
    const tokens = await listTokens(app.pool)
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
          expires_at: time(one.expiresAt),
          revoked_at: time(one.revokedAt),
        })),
      })
    } else {
      printTable(
        ['TOKEN', 'NAME', 'SCOPES', 'WORKSPACE', 'ACCOUNT', 'CREATED', 'STATE'],
        tokens.map((one) => [
          one.id,
          one.name,
          one.scopes.join(','),
          one.workspace ?? '-',
          one.account ?? '-',
          time(one.createdAt) ?? '',
          stateOf(one, app.clock()),
        ]),
      )
    }
    return 0
  })
}

async function revoke(args: string[]): Promise<number> {
  const { positionals } = parseFlags(args, {})
  const [id, ...more] = positionals
  if (!id || more.length > 0) throw new UsageError('Name one token id; `rankledger token list` shows them.')
  return withApp('token', async (app) => {
    if (!(await revokeToken(app.pool, id, app.clock()))) {
      throw new CommandFailed(`No valid token has the id ${id}; see \`rankledger token list\`.`)
    }
    print(`Token ${id} is revoked; every process refuses it within 5 seconds.`)
    return 0
  })
}

function stateOf(token: StoredToken, now: Date): string {
  if (token.revokedAt) return 'revoked'
  return token.expiresAt && token.expiresAt <= now ? 'expired' : 'valid'
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

function readExpiry(text: string | undefined, now: Date, app: App): Date | null {
  if (text === undefined) return null
  const duration = parseDuration(text)
  const expiresAt = duration && addDuration(now, duration, app.config.timeZone)
  if (!expiresAt || expiresAt <= now)
    throw new UsageError('--expires takes an ISO 8601 duration such as P90D.')
  return expiresAt
}
