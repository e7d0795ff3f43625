/** Of the report; colours of charts are told apart by who does not see red or green as well. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --page: #f6f6f3; --card: #ffffff; --ink: #1c2024; --quiet: #626a73; --edge: #e2e2dc; --grid: #e9e9e4; --one: #8b929a;
  --blue: #2a6fdb; --orange: #d9730d; --teal: #12908e; --pink: #c2418c; --violet: #7a55c9; --olive: #7d8a1e;
  --brown: #94613a; --grey: #9aa1a9; --soft-blue: #e4eefc; --soft-orange: #fdeedd; --soft-grey: #eeeeea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1c2024; --ink: #e8eaec; --quiet: #9aa3ac; --edge: #2d3338; --grid: #2a2f34; --one: #7b848d;
    --blue: #6ea5f5; --orange: #f0a04b; --teal: #45c2bd; --pink: #e583ba; --violet: #ae92ee; --olive: #bac752;
    --brown: #c99a72; --grey: #6d757d; --soft-blue: #1e3152; --soft-orange: #453018; --soft-grey: #2a2f34;
  }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif }
main { max-width: 1000px; margin: 0 auto; padding: 32px 20px 80px }
h1 { font-size: 28px; margin: 0 0 4px; letter-spacing: -0.01em }
h2 { font-size: 20px; margin: 44px 0 12px }
h3 { font-size: 16px; margin: 0 0 4px }
h4 { font-size: 13px; margin: 20px 0 4px; color: var(--quiet); font-weight: 600 }
p { margin: 6px 0 } .quiet { color: var(--quiet) } a { color: var(--blue) }
nav { display: flex; flex-wrap: wrap; gap: 6px; margin: 20px 0 0 }
nav a { padding: 2px 10px; border: 1px solid var(--edge); border-radius: 99px; background: var(--card); color: inherit;
  text-decoration: none; font-size: 13px }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 24px 0 }
.tile, article, .card { background: var(--card); border: 1px solid var(--edge); border-radius: 10px }
.tile { padding: 12px 16px } .tile b { display: block; font-size: 26px; line-height: 1.25; font-variant-numeric: tabular-nums }
article { padding: 18px 20px; margin: 14px 0 } .card { padding: 6px 16px }
.id { display: inline-block; min-width: 24px; padding: 0 7px; margin-right: 8px; border-radius: 6px; text-align: center;
  background: var(--soft-grey); font-weight: 600 }
.badge { display: inline-block; padding: 0 9px; border-radius: 99px; font-size: 13px; font-weight: 600; white-space: nowrap }
.met { background: var(--soft-blue); color: var(--blue) } .missed { background: var(--soft-orange); color: var(--orange) }
.open { background: var(--soft-grey); color: var(--quiet) }
.scroll { overflow-x: auto }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 4px 24px }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--edge); vertical-align: top }
th { color: var(--quiet); font-weight: 600 } td { min-width: 90px } td.whole { white-space: nowrap } td:first-child { max-width: 340px }
tr:last-child td { border-bottom: 0 }
details { margin-top: 12px } summary { cursor: pointer; color: var(--quiet); font-size: 13px }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 8px 0; font-size: 14px }
dt { color: var(--quiet) } dd { margin: 0 }
.note { color: var(--quiet); font-size: 13px; margin: 2px 0 }
.warn { border-left: 3px solid var(--orange); padding-left: 10px }
svg { display: block; width: 100%; height: auto; max-width: 620px } svg text { fill: var(--ink); font: 12.5px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif }
svg .end { text-anchor: end } svg .strong { font-weight: 600 } svg .quiet, svg .tick { fill: var(--quiet); font-size: 12px }
svg .tick { text-anchor: middle; font-size: 11px } svg .tick.end { text-anchor: end }
svg .figure { font-variant-numeric: tabular-nums; paint-order: stroke; stroke: var(--card); stroke-width: 4px }
.grid { stroke: var(--grid) } .one { stroke: var(--one); stroke-width: 1.5 } .whisker { stroke: var(--ink); stroke-opacity: 0.65 }
.better, .ours, .series1 { fill: var(--blue) } .worse, .series2 { fill: var(--orange) } .unproven, .theirs { fill: var(--grey) }
.aim { fill: var(--ink) } .aim-line { stroke: var(--ink); stroke-dasharray: 4 4; stroke-opacity: 0.6 }
path[class^=line], line[class^=line] { fill: none; stroke-width: 2 } .thin { stroke-width: 1.2; stroke-opacity: 0.6 }
.line1 { stroke: var(--blue); --own: var(--blue) } .line2 { stroke: var(--orange); --own: var(--orange) }
.line3 { stroke: var(--teal); --own: var(--teal) } .line4 { stroke: var(--pink); --own: var(--pink) }
.line5 { stroke: var(--violet); --own: var(--violet) } .line6 { stroke: var(--olive); --own: var(--olive) }
.line7 { stroke: var(--brown); --own: var(--brown) } .line8 { stroke: var(--grey); --own: var(--grey) }
.dot { fill: var(--own); stroke: var(--card); stroke-width: 1.5 }
@media (max-width: 600px) {
  main { padding: 20px 10px 60px } article { padding: 14px 12px } .card { padding: 6px 12px } dl { grid-template-columns: 1fr }
  .tiles { grid-template-columns: 1fr 1fr } .stack thead { display: none } .stack tr { display: block; padding: 6px 0; border-bottom: 1px solid var(--edge) }
  .stack td, .stack td.whole { display: block; padding: 1px 0; border: 0; white-space: normal; max-width: none } .stack td:empty { display: none }
}
@media print { body { background: #fff } article { break-inside: avoid } }
`
