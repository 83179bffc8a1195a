import type { Http } from '../platform/http/http.ts'
import type { BatchApp } from './app.ts'
import { keywordRoutes } from './keywords/keyword-routes.ts'
import { modelRoutes } from './models/model-routes.ts'
import { predictionRoutes } from './predictions/prediction-routes.ts'
import { movementRoutes } from './ranks/movement-routes.ts'
import { rankRoutes } from './ranks/rank-routes.ts'
import { runRoutes } from './runs/run-routes.ts'
import { triggerRoutes } from './scheduling/trigger-routes.ts'
import { summaryRoutes } from './summary/summary-routes.ts'
import { sourceRoutes } from './tracking/source-routes.ts'
import { trackerRoutes } from './tracking/tracker-routes.ts'
import { trendRoutes } from './trends/trend-routes.ts'
import { volumeRoutes } from './volumes/volume-routes.ts'

/** Everything batch answers over HTTP. */
export function batchRoutes(http: Http, app: BatchApp): void {
  keywordRoutes(http, app)
  rankRoutes(http, app)
  movementRoutes(http, app)
  volumeRoutes(http, app)
  trendRoutes(http, app)
  runRoutes(http, app)
  modelRoutes(http, app)
  triggerRoutes(http, app)
  predictionRoutes(http, app)
  summaryRoutes(http, app)
  trackerRoutes(http, app)
  sourceRoutes(http, app)
}
