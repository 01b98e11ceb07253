/**
 * The charts of the status view: rates, times and sizes of the hub, one tile each.
 *
 * The view's own polling is not counted: it would be all there is to see on a quiet hub.
 */

import { Tile } from "../charts.js";
import { h } from "../dom.js";
import { Between } from "./metrics.js";
import { bytes, count, milliseconds, rate } from "./units.js";

const POINTS = 90;
const OWN = new Set(["/metrics", "/api/v1/status", "/api/v1/plugins"]);
const notOwn = ({ endpoint }) => !OWN.has(endpoint);

/**
 * Title, format, and the value (and perhaps a note) from `{between, times, reading, status}`; the first two are null at
 * first.
 */
const TILES = [
  ["Events per second", rate, ({ between }) => [between?.rate("parley_events_total")]],
  ["Requests per second", rate, ({ between }) => [between?.rate("parley_requests_total", notOwn)]],
  ["Request time, median", milliseconds, ({ times }) => [times?.request[0]]],
  ["Request time, 99 %", milliseconds, ({ times }) => [times?.request[1]]],
  ["Commit time, 99 %", milliseconds, ({ times }) => [times?.commit[0]]],
  ["Feeds open", count, ({ status, reading }) => [status.ws_connections, peakNote(reading)]],
  ["Writes waiting", count, ({ status }) => [status.writes_waiting]],
  ["Plugin jobs waiting", count, ({ status }) => [status.plugins?.waiting, failedNote(status)]],
  ["Database", bytes, ({ status }) => [status.db_bytes]],
  ["Write-ahead log", bytes, ({ status }) => [status.wal_bytes]],
  ["Disk free", bytes, ({ status, reading }) => [status.disk_free_bytes, shareNote(reading)]],
  ["Memory", bytes, ({ reading }) => [reading.value("parley_resident_bytes")]],
];

export function createTiles() {
  const tiles = TILES.map(([title, format, valueOf]) => ({
    tile: new Tile({ title, format, length: POINTS }),
    valueOf,
  }));
  let before = null;
  return {
    element: h(
      "div",
      { class: "tiles" },
      tiles.map(({ tile }) => tile.element),
    ),
    /** Takes in a reading of the metrics and the status of the same moment. */
    push(reading, status) {
      const between = before === null ? null : new Between(before, reading);
      const seen = { between, reading, status, times: between && timesOf(between) };
      for (const { tile, valueOf } of tiles) {
        const [value, note] = valueOf(seen);
        tile.push(value ?? null, note);
      }
      before = reading;
    },
    /** After a gap, rates begin anew. */
    forget() {
      before = null;
    },
  };
}

function timesOf(between) {
  return {
    request: between.quantiles("parley_request_seconds", [0.5, 0.99], notOwn),
    commit: between.quantiles("parley_commit_seconds", [0.99]),
  };
}

function peakNote(reading) {
  const peak = reading.value("parley_ws_connections_peak");
  return peak === null ? "" : `most ${count(peak)}`;
}

function failedNote({ plugins }) {
  return plugins?.failed > 0 ? `${count(plugins.failed)} failed` : "";
}

function shareNote(reading) {
  const share = reading.value("parley_disk_free_ratio");
  return share === null ? "" : `${Math.round(share * 100)} %`;
}
