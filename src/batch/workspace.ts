import Type from 'typebox'
import type { Principal } from '../platform/access/access.ts'
import { WorkspaceId } from '../platform/http/fields.ts'
import { invalid } from './refusals.ts'

/** The query of a route that takes no more than the workspace. */
export const WorkspaceQuery = Type.Object(
  { workspace_id: Type.Optional(WorkspaceId) },
  { additionalProperties: false },
)

/** The workspace a request is about: the one it names, else the token's own. `*` stands for all and so for none. */
export function workspaceOf(principal: Principal, named: string | undefined): string {
  const workspace = named ?? principal.workspace
  if (workspace !== null && workspace !== '*') return workspace
  throw invalid('workspace_id', 'required', 'This token is bound to no single workspace: name one.')
}
