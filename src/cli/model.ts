import { writeFile } from 'node:fs/promises'
import { activateModel, retireModel } from '../batch/models/change-model.ts'
import { CorruptModel } from '../batch/models/model-codec.ts'
import { openModelFiles } from '../batch/models/model-files.ts'
import { runErrors } from '../batch/runs/run.ts'
import { reliabilitySvg } from '../batch/training/reliability-svg.ts'
import { scoreModel, type Unscored } from '../batch/training/score-model.ts'
import { verifyModel } from '../batch/training/verify-model.ts'
import type { Foundation } from '../foundation.ts'
import { callerIdPattern, isId } from '../platform/id.ts'
import { Refusal } from '../platform/refusal.ts'
import {
  type Command,
  CommandFailed,
  explainFile,
  parseFlags,
  print,
  printJson,
  printTable,
  UsageError,
  withFoundation,
} from './command.ts'

export const model: Command = {
  summary: 'Retire, activate, verify or score a model',
  usage: `rankledger model retire MODEL_ID [--json]
rankledger model activate MODEL_ID [--json]         put it to use in place of the active one
rankledger model verify MODEL_ID [--json]           train it again and compare the bytes
rankledger model score --workspace ID [--svg FILE] [--json]
                                                    how well the active model would have done on this workspace's
                                                    history, with a reliability diagram

verify exits 0 if the bytes are the same, 1 if they differ, 6 if the rank history up to the model's last day is no
longer what it was trained on, and says what changed. activate exits 4 if the stored artifact is corrupt.`,

  async run(args) {
    const [verb, ...rest] = args
    if (verb === 'score') return score(rest)
    const { values, positionals } = parseFlags(rest, { json: { type: 'boolean', default: false } })
    const [id, ...more] = positionals
    const act = verb !== undefined && Object.hasOwn(verbs, verb) ? verbs[verb] : undefined
    if (!act) throw new UsageError('Say what to do with a model: retire, activate, verify or score.')
    if (!id || more.length > 0) throw new UsageError('Name one model id; GET /api/batch/models lists them.')
    return withFoundation('model', async (app) => {
      try {
        if (!isId('mdl_', id)) throw new CommandFailed(`There is no model ${id}.`)
        const { exitCode, outcome, sentence, more } = await act(app, id)
        // The files of manifests follow at once, also where no service runs.
        await openModelFiles(app.batch)()
        if (values.json) printJson({ model_id: id, outcome, exit_code: exitCode, ...more })
        else print(sentence)
        return exitCode
      } catch (error) {
        if (error instanceof Refusal && error.code === 'model_pruned') throw new CommandFailed(error.message)
        if (error instanceof Refusal) throw new CommandFailed(`There is no model ${id}.`)
        throw error
      }
    })
  },
}

type Acted = { exitCode: number; outcome: string; sentence: string; more?: Record<string, unknown> }

const verbs: Record<string, (app: Foundation, id: string) => Promise<Acted>> = {
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
    const { verdict, expected, found, changes } = await verifyModel(batch, id, showProgress())
    const sentences = {
      same: `Model ${id} was trained again to the same bytes (sha256 ${expected}).`,
      differs: [
        `Model ${id} was trained again to other bytes: sha256 ${found} instead of ${expected}.`,
        ...changes,
      ].join(' '),
      data_changed: [`What model ${id} was made from has changed.`, ...changes].join(' '),
    }
    const exitCode = { same: 0, differs: 1, data_changed: 6 }[verdict]
    return { exitCode, outcome: verdict, sentence: sentences[verdict], more: { changes } }
  },
}

const unscored: Record<Unscored, string> = {
  no_active_model: 'No model is active; trigger train_classifier first.',
  corrupt_model: runErrors.corrupt_model,
  other_features: runErrors.other_features,
  no_rows:
    'This workspace has no ranks with a known outcome on days that the active model has not learnt from.',
}

async function score(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    workspace: { type: 'string' },
    svg: { type: 'string' },
    json: { type: 'boolean', default: false },
  })
  const { workspace, svg, json } = values
  if (positionals.length > 0) throw new UsageError('model score takes no arguments beside its flags.')
  if (workspace === undefined || !callerIdPattern.test(workspace))
    throw new UsageError('Name the workspace: --workspace ID, 1 to 64 of A-Za-z0-9_.:-')
  return withFoundation('model', async ({ batch }) => {
    const scored = await scoreModel(batch, workspace)
    if (typeof scored === 'string') throw new CommandFailed(unscored[scored])
    const { model: registered, horizonDays, firstDay, lastDay, figures, losses } = scored
    const title = `Model ${registered.id} on workspace ${workspace}, ${firstDay} to ${lastDay}`
    const lines: [string, string] = [
      `Workspace ${workspace}, ${firstDay} to ${lastDay}`,
      `Model ${registered.id}`,
    ]
    if (svg !== undefined)
      await writeFile(svg, reliabilitySvg({ lines, figures })).catch(explainFile(svg, 'written'))
    if (json) {
      printJson({
        model_id: registered.id,
        workspace_id: workspace,
        horizon_days: horizonDays,
        first_day: firstDay,
        last_day: lastDay,
        figures,
        log_loss: losses,
      })
      return 0
    }
    print(`${title}: ${figures.examples} moves over ${horizonDays} days, none of which it had learnt from.`)
    const loss = (value: number | null) => value?.toFixed(4) ?? '-'
    printTable(
      ['', 'log-loss', 'on ranked rows'],
      losses.map(({ name, all, ranked }) => [name, loss(all), loss(ranked)]),
    )
    const [own, ...rivals] = losses
    const skill = Math.min(...rivals.map(({ all }) => all)) - own!.all
    print(
      skill > 0
        ? `It is ${skill.toFixed(4)} better than the best of what anybody could say without it.`
        : `It is no better than what anybody could say without it (${skill.toFixed(4)}).`,
    )
    print(
      `Rise against fall: AUC ${figures.auc_rise_fall?.toFixed(3) ?? 'unknown'}; right ${(100 * figures.accuracy).toFixed(1)} % of the time; calibration error ${figures.calibration_error.toFixed(3)}.`,
    )
    if (svg !== undefined) print(`The reliability diagram is in ${svg}.`)
    return 0
  })
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
