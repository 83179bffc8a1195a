import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runCommand } from '../processes/service-process.ts'
import { openWorld, type World } from '../world.ts'
import { aimlessWeek, run, store } from './batch-story.ts'

let world: World
let modelId: string
let whole: { artifact: Buffer; samples: string; manifest: string }

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z', worker: true })
})
afterAll(() => world.close())

const command = (...args: string[]) => runCommand(args, world.environment)
const checkModel = (...flags: string[]) => command('check-model', ...flags)
async function verdict(...flags: string[]) {
  const { code, output } = await checkModel('--json', ...flags)
  return { code, ...JSON.parse(output) }
}

test('without an active model it exits 3', async () => {
  const { code, output } = await checkModel()
  expect(code).toBe(3)
  expect(output).toContain('No model is active')
  expect(await verdict()).toMatchObject({ code: 3, verdict: 'none_active', exit_code: 3, model_id: null })
})

test.each([['--task', 'predict'], ['--task', 'x'], ['--max-age', 'soon'], ['--nonsense'], ['extra']])(
  '%s %s is misuse and exits 2',
  async (...flags) => {
    expect((await checkModel(...flags)).code).toBe(2)
  },
)

describe('with an active model', () => {
  const cached = () => join(world.environment['RANKLEDGER_DATA']!, 'models', `${modelId}.model`)

  beforeAll(async () => {
    await store(world, 'ws', aimlessWeek())
    modelId = (await run(world, 'classifier')).model_id
    const [row] = await world.query<typeof whole>(
      'select artifact, samples::text, manifest::text from batch.model where id = $1',
      [modelId],
    )
    whole = row!
  })
  beforeEach(async () => {
    await world.query(
      `update batch.model set artifact = $2, samples = $3, manifest = $4, status = 'active', created_at = $5 where id = $1`,
      [modelId, whole.artifact, whole.samples, whole.manifest, new Date('2030-01-15T12:00:10Z')],
    )
    writeFileSync(cached(), whole.artifact)
  })

  test('that is whole and recent it exits 0', async () => {
    expect((await checkModel()).code).toBe(0)
    expect(await verdict('--task', 'classifier', '--max-age', '1d')).toMatchObject({
      code: 0,
      verdict: 'good',
      model_id: modelId,
      algorithm: 'prior',
      artifact_sha256: JSON.parse(whole.manifest).artifact.sha256,
    })
  })

  test('the manifest also lies as a file beside the cached artifact', async () => {
    expect(readFileSync(cached())).toEqual(whole.artifact)
    const file = JSON.parse(readFileSync(cached().replace(/\.model$/, '.json'), 'utf8'))
    const shown = (await world.get(`/api/batch/models/${modelId}`)).body.data
    expect(file).toEqual({ ...shown, created_at: file.created_at })
    expect(file.status).toBe('active')
  })

  test.each([0, 8, 40, -1])('one flipped bit in the artifact (byte %i) is corrupt: 4', async (at) => {
    const bytes = Buffer.from(whole.artifact)
    bytes[(at + bytes.length) % bytes.length]! ^= 1
    await world.query('update batch.model set artifact = $2 where id = $1', [modelId, bytes])
    expect(await verdict()).toMatchObject({ code: 4, verdict: 'corrupt' })
  })

  test('so is a damaged copy in the cache, until it is removed', async () => {
    writeFileSync(cached(), whole.artifact.subarray(1))
    expect(await verdict()).toMatchObject({ code: 4, complaint: expect.stringContaining('cache') })
    // The service itself does not trust it either, and mends it.
    await run(world, 'predict')
    expect(readFileSync(cached())).toEqual(whole.artifact)
    expect((await checkModel()).code).toBe(0)
  })

  test('and bytes with the right hash that are no model', async () => {
    const nonsense = Buffer.from('no model')
    const { createHash } = await import('node:crypto')
    const sha256 = createHash('sha256').update(nonsense).digest('hex')
    await world.query(
      `update batch.model set artifact = $2, artifact_sha256 = $3,
         manifest = jsonb_set(manifest, '{artifact,sha256}', to_jsonb($3::text)) where id = $1`,
      [modelId, nonsense, sha256],
    )
    writeFileSync(cached(), nonsense)
    expect(await verdict()).toMatchObject({ code: 4, complaint: 'The artifact cannot be read.' })
    await world.query('update batch.model set artifact_sha256 = $2 where id = $1', [
      modelId,
      JSON.parse(whole.manifest).artifact.sha256,
    ])
  })

  test('sample rows that score otherwise than stored are corrupt too', async () => {
    await world.query(
      `update batch.model set samples = jsonb_set(samples, '{probabilities,0,0}', '0.5') where id = $1`,
      [modelId],
    )
    expect(await verdict()).toMatchObject({ code: 4, complaint: expect.stringContaining('sample') })
  })

  test('one trained too long ago exits 5, by the clock of the service', async () => {
    await world.query('update batch.model set created_at = $2 where id = $1', [
      modelId,
      '2030-01-07T11:00:00Z',
    ])
    expect(await verdict()).toMatchObject({ code: 5, verdict: 'too_old', model_id: modelId })
    expect(await verdict('--max-age', '9d')).toMatchObject({ code: 0 })
    expect(await verdict('--max-age', '2w')).toMatchObject({ code: 0 })
  })

  describe('an operator', () => {
    test('retires it, and may activate it again', async () => {
      expect((await command('model', 'retire', modelId)).code).toBe(0)
      expect((await checkModel()).code).toBe(3)
      expect((await command('model', 'retire', modelId)).code).toBe(1)
      expect((await command('model', 'activate', modelId)).code).toBe(0)
      expect((await checkModel()).code).toBe(0)
      const { status_history } = (await world.get(`/api/batch/models/${modelId}`)).body.data
      expect(status_history.map(({ status }: { status: string }) => status)).toEqual([
        'candidate',
        'active',
        'retired',
        'active',
      ])
    })

    test('cannot activate a corrupt one', async () => {
      await world.query(`update batch.model set artifact = '\\x00', status = 'retired' where id = $1`, [
        modelId,
      ])
      expect((await command('model', 'activate', modelId)).code).toBe(4)
      expect((await checkModel()).code).toBe(3)
    })

    test('verifies it: 0 while the data are the same, 6 once they are not', async () => {
      const same = await command('model', 'verify', modelId, '--json')
      expect(same.code).toBe(0)
      expect(same.output).toContain('"outcome": "same"')
      await store(world, 'ws', [{ keyword: 'late', day: '2030-01-09', status: 'ranked', position: 7 }])
      expect((await command('model', 'verify', modelId)).code).toBe(6)
    })

    test.each([['model'], ['model', 'eat', 'x'], ['model', 'retire'], ['model', 'retire', 'a', 'b']])(
      '%s %s %s %s is misuse',
      async (...args) => {
        expect((await command(...args.filter((arg) => arg !== undefined))).code).toBe(2)
      },
    )

    test.each(['mdl_00000000000000000000000000', 'x'])('%s is no model', async (id) => {
      for (const verb of ['retire', 'activate', 'verify'])
        expect((await command('model', verb, id)).code).toBe(1)
    })
  })
})
