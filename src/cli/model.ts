import type { App } from '../app.ts'
import { activateModel, retireModel } from '../batch/models/change-model.ts'
import { CorruptModel } from '../batch/models/model-codec.ts'
import { verifyModel } from '../batch/training/verify-model.ts'
import { isId } from '../platform/id.ts'
import { Refusal } from '../platform/refusal.ts'
import { type Command, CommandFailed, parseFlags, print, printJson, UsageError, withApp } from './command.ts'

export const model: Command = {
  summary: 'Retire, activate or verify a model',
  usage: `rankledger model retire MODEL_ID
rankledger model activate MODEL_ID       put it to use in place of the active one
rankledger model verify MODEL_ID         train it again and compare the bytes
  [--json]

verify exits 0 if the bytes are the same, 1 if they differ, 6 if the rank history up to the model's last day is no
longer what it was trained on. activate exits 4 if the stored artifact is corrupt.`,

  async run(args) {
    const [verb, ...rest] = args
    const { values, positionals } = parseFlags(rest, { json: { type: 'boolean', default: false } })
    const [id, ...more] = positionals
    const act = verbs[verb ?? '']
    if (!act) throw new UsageError('Say what to do with a model: retire, activate or verify.')
    if (!id || more.length > 0) throw new UsageError('Name one model id; GET /api/batch/models lists them.')
    return withApp('model', async (app) => {
      try {
        if (!isId('mdl_', id)) throw new CommandFailed(`There is no model ${id}.`)
        const { exitCode, outcome, sentence } = await act(app, id)
        if (values.json) printJson({ model_id: id, outcome, exit_code: exitCode })
        else print(sentence)
        return exitCode
      } catch (error) {
        if (error instanceof Refusal) throw new CommandFailed(`There is no model ${id}.`)
        throw error
      }
    })
  },
}

type Acted = { exitCode: number; outcome: string; sentence: string }

const verbs: Record<string, (app: App, id: string) => Promise<Acted>> = {
  async retire({ batch }, id) {
    if (!(await retireModel(batch, id))) throw new CommandFailed(`Model ${id} is not active.`)
    return { exitCode: 0, outcome: 'retired', sentence: `Model ${id} is retired; no model is active now.` }
  },

  async activate({ batch }, id) {
    try {
      await activateModel(batch, id)
      return { exitCode: 0, outcome: 'active', sentence: `Model ${id} is active.` }
    } catch (error) {
      if (!(error instanceof CorruptModel)) throw error
      return {
        exitCode: 4,
        outcome: 'corrupt',
        sentence: `Model ${id} stays as it is: its artifact is corrupt.`,
      }
    }
  },

  async verify({ batch }, id) {
    const { verdict, expected, found } = await verifyModel(batch, id, showProgress())
    const sentences = {
      same: `Model ${id} was trained again to the same bytes (sha256 ${expected}).`,
      differs: `Model ${id} was trained again to other bytes: sha256 ${found} instead of ${expected}.`,
      data_changed: `The rank history up to the model's last day has changed: snapshot ${found} instead of ${expected}.`,
    }
    const exitCode = { same: 0, differs: 1, data_changed: 6 }[verdict]
    return { exitCode, outcome: verdict, sentence: sentences[verdict] }
  },
}

/** A bar that redraws itself on a terminal, a line every tenth elsewhere; on stderr, for stdout is the result. */
function showProgress(): (fraction: number) => void {
  const width = 24
  const terminal = process.stderr.isTTY === true
  let shown = -1
  return (fraction) => {
    const step = Math.floor(fraction * (terminal ? 100 : 10))
    if (step === shown) return
    shown = step
    const percent = `training: ${Math.floor(fraction * 100)} %`
    const full = Math.floor(fraction * width)
    const bar = `[${'#'.repeat(full)}${'.'.repeat(width - full)}]`
    process.stderr.write(terminal ? `${bar} ${percent}${fraction === 1 ? '\n' : '\r'}` : `${percent}\n`)
  }
}
