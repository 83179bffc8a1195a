import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { audit } from '../../src/cli/audit.ts'
import { bootstrapToken } from '../../src/cli/bootstrap-token.ts'
import { token as tokenCommand } from '../../src/cli/token.ts'
import { readConfig } from '../../src/config.ts'
import { isToken, newToken, tokenIdOf } from '../../src/platform/access/token.ts'
import { findToken, rotateToken } from '../../src/platform/access/token-rows.ts'
import { keepSecret } from '../../src/platform/data-dir.ts'
import { runCommand } from '../billing/run-command.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
})
afterAll(() => world.close())

const stored = async (token: string) => (await findToken(world.app.pool, tokenIdOf(token)))!
const command = (...args: string[]) => runCommand(tokenCommand, args, world.environment)

describe('a kept secret', () => {
  const dir = mkdtempSync(join(tmpdir(), 'rankledger-secret-'))
  afterAll(() => rmSync(dir, { recursive: true }))
  const keep = (name: string) =>
    keepSecret(
      dir,
      name,
      () => newToken('test'),
      (text) => isToken(text),
    )

  test('is made once, for its owner only', () => {
    const made = keep('fine')
    expect(keep('fine')).toBe(made)
    expect(statSync(join(dir, 'fine')).mode & 0o777).toBe(0o600)
  })

  test('is made anew where its file is empty, and both who start then have the same one', () => {
    writeFileSync(join(dir, 'empty'), '\n', { mode: 0o600 })
    const made = keep('empty')
    expect(isToken(made)).toBe(true)
    expect(keep('empty')).toBe(made)
  })

  test('is not believed from a file that others may touch, that is a link, or that holds something else', () => {
    keep('loose')
    chmodSync(join(dir, 'loose'), 0o640)
    expect(() => keep('loose')).toThrow(/may be read or written by other accounts/)
    symlinkSync(join(dir, 'fine'), join(dir, 'link'))
    expect(() => keep('link')).toThrow(/is a link/)
    writeFileSync(join(dir, 'planted'), 'rl_test_chosen_by_somebody\n', { mode: 0o600 })
    expect(() => keep('planted')).toThrow(/does not hold what belongs there/)
    try {
      keep('planted')
    } catch (error) {
      expect(String(error)).not.toContain('chosen')
    }
  })

  test.runIf(process.getuid?.() === 0)('is not believed from a file of another account', async () => {
    const { chownSync } = await import('node:fs')
    keep('foreign')
    chownSync(join(dir, 'foreign'), 12_345, 12_345)
    expect(() => keep('foreign')).toThrow(/belongs to another account/)
  })
})

test('another BOOTSTRAP_TOKEN takes the place of the former one, whoever still brings that', async () => {
  const [first, second] = [newToken('test'), newToken('test')]
  const start = (BOOTSTRAP_TOKEN: string) =>
    bootstrapToken({ ...world.app, config: readConfig({ ...world.environment, BOOTSTRAP_TOKEN }) })
  const file = join(world.environment['RANKLEDGER_DATA']!, 'token')

  await start(first)
  expect(readFileSync(file, 'utf8').trim()).toBe(first)
  await start(second)
  expect([(await stored(first)).revokedAt, (await stored(second)).revokedAt]).toEqual([
    expect.any(Date),
    null,
  ])
  expect(readFileSync(file, 'utf8').trim()).toBe(second)
  expect((await world.get('/api/billing/plans', { token: first })).status).toBe(401)
  // A process of the old deployment starts once more: the new token stays.
  await start(first)
  expect((await stored(second)).revokedAt).toBeNull()
  expect((await world.get('/api/billing/plans', { token: second })).status).toBe(200)
})

test('the database refuses an admin token that is bound to a part, and so does the command', async () => {
  for (const binding of [
    ['--workspace', 'ws_1'],
    ['--account', 'acct_1'],
    ['--workspace', '*', '--account', 'a'],
  ]) {
    const refused = await command('create', '--scope', 'admin', ...binding)
    expect([refused.code, refused.error]).toEqual([2, expect.stringMatching(/whole installation/)])
  }
})

test('a token that reaches nobody is made, with a warning beside the result', () => {
  const create = (...flags: string[]) =>
    spawnSync(process.execPath, ['dist/main.js', 'token', 'create', '--json', ...flags], {
      cwd: fileURLToPath(new URL('../../', import.meta.url)),
      env: { ...process.env, MODE: '', ...world.environment },
      encoding: 'utf8',
    })
  const silent = create('--scope', 'billing:read', '--account', 'acct_1')
  expect([silent.status, isToken(JSON.parse(silent.stdout).token), silent.stderr]).toEqual([0, true, ''])
  const warned = create('--scope', 'billing:read,batch:read')
  expect([warned.status, isToken(JSON.parse(warned.stdout).token)]).toEqual([0, true])
  expect(warned.stderr.split('\n')).toEqual([
    expect.stringMatching(/billing scopes but no account.* --account ID/),
    expect.stringMatching(/batch scopes but no workspace.* --workspace ID/),
    '',
  ])
})

test('a leaked token is revoked by itself, and not said back', async () => {
  const leaked = await world.makeToken({})
  const { code, output, error } = await command('revoke', leaked)
  expect(code).toBe(0)
  expect(output + error).not.toContain(leaked)
  expect((await stored(leaked)).revokedAt).not.toBeNull()
})

test('a token tells who made it and when it was last used, and a rotated one goes on for a while', {
  retry: 3,
}, async () => {
  const old = await world.makeToken({ scopes: ['billing:read'], account: 'acct_1', workspace: null })
  expect((await world.get('/api/billing/plans', { token: old })).status).toBe(200)
  await expect.poll(async () => (await stored(old)).lastUsedAt).toEqual(expect.any(Date))
  expect((await stored(old)).createdBy).toBe('test')

  const made = newToken('test')
  const now = world.app.clock()
  const until = new Date(now.getTime() + 3_600_000)
  const change = { now, actor: 'operator', until, expiresAt: null }
  expect(await rotateToken(world.app.pool, tokenIdOf(old), made, change)).toBe(true)
  expect(await stored(made)).toMatchObject({
    scopes: ['billing:read'],
    account: 'acct_1',
    workspace: null,
    expiresAt: null,
  })
  expect(await stored(old)).toMatchObject({ replacedBy: tokenIdOf(made), expiresAt: until })
  for (const token of [old, made])
    expect((await world.get('/api/billing/accounts/acct_2', { token })).status).toBe(403)
  await world.advanceBy('PT1H')
  const isOver = async () => (await world.get('/api/billing/plans', { token: old })).status
  await expect.poll(isOver, { timeout: 5_000 }).toBe(401)
  expect((await world.get('/api/billing/plans', { token: made })).status).toBe(200)
  expect(
    await rotateToken(world.app.pool, tokenIdOf(old), newToken('test'), {
      ...change,
      now: world.app.clock(),
    }),
  ).toBe(false)
})

describe('over HTTP', () => {
  test('a token is made, listed and revoked, and shown once', async () => {
    const made = await world.post('/api/tokens', {
      name: 'dashboard',
      scopes: ['batch:read'],
      workspace: 'ws_1',
      expires_in: 'P90D',
    })
    expect(made.status).toBe(201)
    const { token, token_id } = made.body.data
    expect(isToken(token)).toBe(true)
    expect(made.body.data).toMatchObject({
      created_by: tokenIdOf(world.token),
      status: 'valid',
      account: null,
    })
    expect((await world.get('/api/batch/keywords', { token })).status).toBe(200)

    const listed = await world.get('/api/tokens?limit=2')
    expect(listed.body.data.tokens[0].token_id).toBe(token_id)
    expect(listed.text).not.toContain(token)
    const next = await world.get(`/api/tokens?limit=100&cursor=${listed.body.data.next_cursor}`)
    expect(next.body.data.tokens.map((one: { token_id: string }) => one.token_id)).not.toContain(token_id)

    expect((await world.ask('DELETE', `/api/tokens/${token_id}`)).body.data.status).toBe('revoked')
    expect((await world.ask('DELETE', '/api/tokens', { body: { token_id } })).body.error.code).toBe(
      'already_revoked',
    )
    expect((await world.ask('DELETE', '/api/tokens/nobody')).status).toBe(404)
  })

  test('admin is for all, in the API too', async () => {
    const bound = await world.post('/api/tokens', { scopes: ['admin'], workspace: 'ws_1' })
    expect([bound.status, bound.body.error.details[0].path]).toEqual([400, 'scopes'])
    expect((await world.post('/api/tokens', { scopes: ['admin'] })).body.data).toMatchObject({
      workspace: '*',
      account: '*',
    })
  })

  test.each(['/api/tokens', '/api/audit', '/api/jobs'])('%s is for admin tokens only', async (path) => {
    const all = await world.makeToken({ scopes: ['billing:write', 'batch:write'] })
    expect((await world.get(path, { token: all })).status).toBe(403)
    expect((await world.get(path, { token: null })).status).toBe(401)
    expect((await world.get(path)).status).toBe(200)
  })
})

test('the audit tells who made and revoked tokens and who read whose data, over HTTP and by command', async () => {
  await world.ask('PUT', '/api/billing/accounts/acct_seen', { body: { customer: { name: 'Kim' } } })
  const reader = await world.makeToken({ scopes: ['billing:read'], account: 'acct_seen' })
  for (let times = 0; times < 3; times++)
    await world.get('/api/billing/accounts/acct_seen', { token: reader })
  const { entries } = (await world.get('/api/audit?account_id=acct_seen')).body.data
  const seen = entries.map(({ actor, action }: { actor: string; action: string }) => [actor, action])
  expect(seen.filter(([, action]: [string, string]) => action === 'account.read')).toEqual([
    [tokenIdOf(reader), 'account.read'],
  ])
  expect(seen).toContainEqual(['test', 'token.create'])
  expect(seen).toContainEqual([tokenIdOf(world.token), 'account.save'])
  expect(JSON.stringify(entries)).not.toContain('Kim')

  const page = await world.get('/api/audit?limit=1')
  const behind = await world.get(`/api/audit?limit=1&cursor=${page.body.data.next_cursor}`)
  expect(BigInt(behind.body.data.entries[0].audit_id)).toBeLessThan(
    BigInt(page.body.data.entries[0].audit_id),
  )

  const listed = await runCommand(audit, ['list', '--actor', tokenIdOf(reader), '--json'], world.environment)
  expect(JSON.parse(listed.output).entries).toMatchObject([{ action: 'account.read', target: 'acct_seen' }])
  await expect(world.query(`update platform.audit set actor = 'nobody'`)).rejects.toThrow(/never changed/)
  await expect(world.query('truncate platform.audit')).rejects.toThrow(/never changed/)
})

test('a dead job is listed, retried or discarded, each noted; a live one is left alone', async () => {
  const add = async (attempts: number) =>
    String(
      (
        await world.query<{ id: bigint }>(
          `insert into graphile_worker._private_jobs (task_id, payload, attempts, max_attempts, last_error, run_at)
           select id, '{}', $1, 3, 'card 4242424242424242 failed', now() + interval '1 day'
           from graphile_worker._private_tasks limit 1 returning id`,
          [attempts],
        )
      )[0]!.id,
    )
  await world.query(
    `insert into graphile_worker._private_tasks (identifier) values ('test.task') on conflict do nothing`,
  )
  const [dead, given, live] = [await add(3), await add(3), await add(1)]
  const { jobs } = (await world.get('/api/jobs?status=dead&limit=100')).body.data
  expect(jobs.map((job: { job_id: string }) => job.job_id)).toEqual([dead, given])
  expect(JSON.stringify(jobs)).not.toContain('4242424242424242')

  expect((await world.ask('POST', `/api/jobs/${dead}/retry`)).body.data).toMatchObject({
    job_id: dead,
    status: 'waiting',
  })
  expect((await world.ask('POST', `/api/jobs/${given}/discard`)).body.data).toMatchObject({
    status: 'discarded',
  })
  expect((await world.ask('POST', `/api/jobs/${live}/discard`)).body.error.code).toBe('job_not_dead')
  expect((await world.ask('POST', `/api/jobs/${given}/retry`)).status).toBe(404)
  expect((await world.ask('POST', '/api/jobs/x/retry')).status).toBe(404)
  const left = (await world.get('/api/jobs?limit=100')).body.data.jobs
  expect(left.map((job: { job_id: string }) => job.job_id)).toEqual([dead, live])
  const noted = (await world.get(`/api/audit?target=job:${given}`)).body.data.entries
  expect(noted).toMatchObject([{ action: 'job.discard', actor: tokenIdOf(world.token) }])
})
