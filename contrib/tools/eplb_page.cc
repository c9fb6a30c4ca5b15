// SPDX-License-Identifier: MIT OR Apache-2.0
// The page of rlx-eplb --html: the data as JSON and a script that draws one layer at a time. It
// loads nothing from anywhere.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "contrib/tools/eplb_report.h"
#include "sched/bound.h"

namespace rlx::eplb {
namespace {

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Expert placement</title><style>
body{font:15px/1.45 system-ui,sans-serif;color:#1d2733;background:#f6f7f9;margin:0}
main{max-width:1180px;margin:0 auto;padding:20px}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:0 0 2px}
p{margin:4px 0 10px;color:#4a5868}
section{background:#fff;border:1px solid #dfe4ea;border-radius:8px;padding:14px 16px;margin:14px 0}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:14px 0}
.tile{flex:1 1 170px;background:#fff;border:1px solid #dfe4ea;border-radius:8px;padding:10px 14px}
.tile b{display:block;font-size:24px;line-height:1.25}.tile span{color:#4a5868;font-size:13px}
svg{width:100%;display:block;font:12px system-ui,sans-serif}
label{font-weight:600}select{font:inherit;padding:2px 6px}
.maps{display:flex;flex-wrap:wrap;gap:24px}.maps>div{flex:1 1 460px;overflow-x:auto}
.row{display:flex;align-items:center;gap:2px;margin-bottom:2px}
.row i{flex:0 0 74px;font-style:normal;font-size:12px;color:#4a5868}
.row.node{border-top:1px solid #8795a5;padding-top:2px}
.cell{flex:1 1 0;min-width:24px;height:19px;font-size:11px;line-height:19px;text-align:center;border-radius:3px;box-sizing:border-box}
.cell.came{box-shadow:inset 0 0 0 2px #d9480f}.cell.copy{font-weight:700}
.cell.copy::after{content:"\2217"}.cell.empty{background:repeating-linear-gradient(45deg,#fff,#fff 4px,#e3e7ec 4px,#e3e7ec 6px)}
.cell.dead{background:#f3d9d9}
.cell.lit{outline:3px solid #f59f00}
.key{display:inline-block;width:14px;height:14px;border-radius:3px;vertical-align:-2px;margin:0 5px 0 12px}
footer{color:#66758a;font-size:13px;padding:6px 0 30px}
</style></head><body><main id="main"></main><script>
const D=)";

constexpr const char* kScript = R"(;
const NS='http://www.w3.org/2000/svg',GREY='#b3bcc7',DEAD='#f3d9d9',BLUE='#2b6cb0',RED='#c92a2a';
function tag(parent,name,attributes,text){const svg=parent.namespaceURI===NS||name==='svg';
 const e=svg?document.createElementNS(NS,name):document.createElement(name);
 for(const k in attributes||{})e.setAttribute(k,attributes[k]);
 if(text!==undefined)e.textContent=text;parent.appendChild(e);return e}
const ranks=D.first.length-1,num=x=>x>=1e5?(x/1e6).toPrecision(3)+' M':String(Math.round(x));
const pct=(x,d=1)=>(100*x).toFixed(d)+' %';
function copies(row){const c={};row.forEach(e=>{if(e>=0)c[e]=(c[e]||0)+1});return c}
const main=document.getElementById('main'),was=D.from?'now':'in order (no plan)';
tag(main,'h1',{},'Where the experts live: '+D.title);
tag(main,'p',{},`${D.load.length} layers of ${D.load[0].length} experts on ${ranks} ranks with ${D.first[ranks]} slots. `+
 'A rank is a GPU, a slot holds one expert. Each step waits for its busiest rank, so the time lost is what stands above the average. '+
 `Policy ${D.policy}.`);
const gone=D.dead.map((d,r)=>d?r:-1).filter(r=>r>=0);
if(gone.length)tag(main,'p',{},`Dead: rank${gone.length>1?'s':''} ${gone.join(', ')}. `+(D.lost?
 `With them went every copy of ${D.lost} experts, counted layer by layer: nobody serves their tokens now, and their weights have to be reloaded.`:'Every expert still has a copy.'));
const tiles=tag(main,'div',{class:'tiles'});
function tile(big,small){const t=tag(tiles,'div',{class:'tile'});tag(t,'b',{},big);tag(t,'span',{},small)}
tile(`${pct(D.balanceBefore)} → ${pct(D.balance,2)}`,`balance, ${was} → planned (average rank / busiest rank, mean of layers)`);
tile(pct(D.bound,2),'bound: no placement balances better');
if(D.lost)tile(`${D.lost} experts`,`in ${D.lost_.filter(n=>n).length} layers that no living rank has; ${was} counts what is still served`);
else if(D.balanceBefore>0){const less=1-D.balanceBefore/D.balance;tile(pct(Math.abs(less),0),(less<0?'more':'less')+' time on the busiest rank, layers weighed alike')}
if(D.from)tile(`${D.fetches} slots`,`change hands (${pct(D.fetches/(D.load.length*D.first[ranks]))} of all): ${(D.fetches*D.bytes/1e9).toPrecision(3)} GB`);
if(D.payback)tag(main,'p',{},'Is it worth moving? '+D.payback);
const chooser=tag(main,'section');tag(chooser,'label',{for:'layer'},'Layer ');
const select=tag(chooser,'select',{id:'layer'});
D.load.forEach((_,l)=>tag(select,'option',{value:l},`${l}: ${pct(D.before_[l])} → ${pct(D.after_[l])}`));
tag(chooser,'span',{},'  The two drawings below show this layer; hover over an expert to find its copies.');
const bars=tag(main,'section'),maps=tag(main,'section'),all=tag(main,'section');
function title(box,head,text){box.replaceChildren();tag(box,'h2',{},head);if(text)tag(box,'p',{},text)}
function key(p,colour,text,style){tag(p,'span',{class:'key',style:(style||'background:')+colour});tag(p,'span',{},text)}
function axis(svg,W,H,L,top,ticks,label){ticks.forEach(([v,name])=>{const y=H-(H-20)*v/top;
  tag(svg,'line',{x1:L,x2:W,y1:y,y2:y,stroke:'#e3e7ec'});tag(svg,'text',{x:L-6,y:y+4,'text-anchor':'end',fill:'#4a5868'},name)});
 tag(svg,'text',{x:4,y:12,fill:'#4a5868'},label)}
function drawBars(l){const a=D.timeBefore[l],b=D.timeAfter[l],mean=D.mean[l]||1,line=D.line[l];
 title(bars,`Time of every rank, layer ${l}`,D.lost_[l]?`${D.lost_[l]} experts of this layer are lost: the bars of now leave out their tokens.`:'');
 const p=tag(bars,'p');key(p,GREY,was);key(p,BLUE,'planned');key(p,RED,'bound: no placement has a busiest rank below it');if(gone.length)key(p,DEAD,'dead rank');
 const W=1120,H=230,L=52,top=Math.max(...a,...b,line*1.02,mean*1.1)/mean,w=(W-L)/ranks;
 const svg=tag(bars,'svg',{viewBox:`0 0 ${W} ${H+34}`});
 const step=top>6?2:top>3?1:.5,ticks=[];for(let v=0;v<=top;v+=step)ticks.push([v,v+'×']);
 axis(svg,W,H,L,top,ticks,'time, times that of the average living rank');
 for(const r of gone)tag(tag(svg,'rect',{x:L+r*w,y:20,width:w,height:H-20,fill:DEAD}),'title',{},`rank ${r} is dead`);
 for(let r=0;r<ranks;r++)[[a,GREY,0],[b,BLUE,1]].forEach(([t,c,i])=>{const h=(H-20)*t[r]/mean/top;
  const bar=tag(svg,'rect',{x:L+r*w+w*(i?.5:.1),y:H-h,width:w*.4,height:Math.max(0,h),fill:c});
  tag(bar,'title',{},`rank ${r}, ${i?'planned':was}: ${num(t[r])} tokens, ${(t[r]/mean).toFixed(3)}× the average`)});
 const y=H-(H-20)*line/mean/top;tag(svg,'line',{x1:L,x2:W,y1:y,y2:y,stroke:RED,'stroke-width':1.5,'stroke-dasharray':'6 4'});
 const every=Math.ceil(ranks/32);for(let r=0;r<ranks;r+=every)tag(svg,'text',{x:L+r*w+w/2,y:H+14,'text-anchor':'middle',fill:'#4a5868'},r);
 tag(svg,'text',{x:L+(W-L)/2,y:H+30,'text-anchor':'middle',fill:'#4a5868'},'rank')}
const MOST=256;
function drawMap(box,head,row,old,l){const d=tag(box,'div');tag(d,'b',{},head);const c=copies(row),mean=D.load[l].reduce((x,y)=>x+y,0)/D.liveSlots||1;
 for(let r=0;r<Math.min(ranks,MOST);r++){const line=tag(d,'div',{class:'row'+(r>0&&D.node[r]!==D.node[r-1]?' node':'')});tag(line,'i',{},'rank '+r+(D.dead[r]?' dead':''));
  const had=new Set(old?old.slice(D.first[r],D.first[r+1]):[]);
  for(let s=D.first[r];s<D.first[r+1];s++){const e=row[s];if(e<0){tag(line,'div',D.dead[r]?{class:'cell dead',title:'dead rank'}:{class:'cell empty',title:'empty slot'});continue}
   const share=D.load[l][e]/c[e],heat=Math.min(1,share/mean/3),dark=heat>.5;
   const cell=tag(line,'div',{class:'cell'+(c[e]>1?' copy':'')+(old&&!had.has(e)?' came':''),'data-e':e,
    style:`background:rgb(${[235-193*heat,243-136*heat,251-75*heat].map(Math.round)});color:${dark?'#fff':'#1d2733'}`,
    title:`expert ${e}: ${num(share)} tokens here`+(c[e]>1?`, ${c[e]} copies of ${num(D.load[l][e])}`:'')},e);
   cell.onmouseover=()=>maps.querySelectorAll(`[data-e="${e}"]`).forEach(x=>x.classList.add('lit'));
   cell.onmouseout=()=>maps.querySelectorAll('.lit').forEach(x=>x.classList.remove('lit'))}}
 if(ranks>MOST)tag(d,'p',{},`ranks ${MOST} to ${ranks-1} are not drawn`)}
function drawMaps(l){title(maps,`Which expert is where, layer ${l}`,'A row is a rank, a cell a slot with the number of its expert. Good placements mix dark and light in every row.');
 const p=tag(maps,'p');key(p,'#ebf3fb','few tokens');key(p,'#2a6bb0','many tokens');tag(p,'span',{style:'margin-left:12px'},'12∗ one of several copies of expert 12');
 if(D.from)key(p,'#d9480f','came from another rank','box-shadow:inset 0 0 0 2px ');
 if(D.nodes>1)tag(p,'span',{style:'margin-left:12px'},'a line starts the next node');
 const both=tag(maps,'div',{class:'maps'});drawMap(both,D.from?'Now':'In order',D.before[l],null,l);drawMap(both,'Planned',D.after[l],D.from?D.before[l]:null,l)}
function drawAll(){title(all,'Balance of every layer','Average rank over busiest rank; 100 % is perfect. Click a bar to see the layer above.');
 const p=tag(all,'p');key(p,GREY,was);key(p,BLUE,'gained by the plan');key(p,RED,'bound');
 const W=1120,H=180,L=52,n=D.load.length,w=(W-L)/n,svg=tag(all,'svg',{viewBox:`0 0 ${W} ${H+34}`});
 axis(svg,W,H,L,1,[0,.25,.5,.75,1].map(v=>[v,pct(v,0)]),'');
 for(let l=0;l<n;l++){const y=v=>H-(H-20)*v,x=L+l*w+w*.15,g=tag(svg,'g',{style:'cursor:pointer'});
  tag(g,'rect',{x,width:w*.7,y:y(D.after_[l]),height:H-y(D.after_[l]),fill:BLUE});
  tag(g,'rect',{x,width:w*.7,y:y(D.before_[l]),height:H-y(D.before_[l]),fill:GREY});
  tag(g,'line',{x1:x-1,x2:x+w*.7+1,y1:y(D.bound_[l]),y2:y(D.bound_[l]),stroke:RED,'stroke-width':2});
  tag(g,'title',{},`layer ${l}: ${pct(D.before_[l])} → ${pct(D.after_[l],2)}, bound ${pct(D.bound_[l],2)}`);
  g.onclick=()=>{select.value=l;draw()};
  if(l%Math.ceil(n/30)===0)tag(svg,'text',{x:L+l*w+w/2,y:H+14,'text-anchor':'middle',fill:'#4a5868'},l)}
 tag(svg,'text',{x:L+(W-L)/2,y:H+30,'text-anchor':'middle',fill:'#4a5868'},'layer')}
function drawCurve(){if(!D.curve.length)return;const box=tag(main,'section');
 title(box,'What fewer moves would buy','Balance reached for the share of slots that change hands; the dot is this plan. Use --budget to choose another point.');
 const W=1120,H=220,L=52,most=D.curve[D.curve.length-1][0]||1,low=Math.floor(D.curve[0][1]*20)/20,svg=tag(box,'svg',{viewBox:`0 0 ${W} ${H+34}`});
 const x=f=>L+(W-L-20)*f/most,y=b=>H-(H-20)*(b-low)/(1-low||1),ticks=[];for(let v=low;v<=1.0001;v+=(1-low)/5||1)ticks.push([(v-low)/(1-low||1),pct(v)]);
 axis(svg,W,H,L,1,ticks,'');
 tag(svg,'polyline',{points:D.curve.map(([f,b])=>x(f)+','+y(b)).join(' '),fill:'none',stroke:BLUE,'stroke-width':2});
 tag(svg,'circle',{cx:x(D.share),cy:y(D.balance),r:5,fill:RED});
 for(let i=0;i<=8;i++)tag(svg,'text',{x:x(most*i/8),y:H+14,'text-anchor':'middle',fill:'#4a5868'},pct(most*i/8));
 tag(svg,'text',{x:L+(W-L)/2,y:H+30,'text-anchor':'middle',fill:'#4a5868'},'slots that change hands')}
function draw(){const l=+select.value;drawBars(l);drawMaps(l)}
select.onchange=draw;let worst=0;D.before_.forEach((b,l)=>{if(b<D.before_[worst])worst=l});select.value=worst;
draw();drawAll();drawCurve();
tag(main,'footer',{},'Drawn by rlx-eplb. Loads are tokens; the tokens of an expert are split evenly over its copies.');
</script></body></html>
)";

nlohmann::json rows_of(const sched::Placement& placement) {
  auto rows = nlohmann::json::array();
  for (int l = 0; l < placement.layers; ++l)
    rows.push_back(std::vector<int32_t>(placement.row(l).begin(), placement.row(l).end()));
  return rows;
}

// Time of every rank, summed over the windows.
std::vector<double> times_of(const Report& r, const sched::Placement& placement, int l) {
  std::vector<double> sum(r.cluster.ranks());
  for (int t = 0; t < r.loads.windows; ++t) {
    const auto times = rank_times(r.loads.row(t, l), placement.row(l), r.cluster, r.time);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += times[i];
  }
  return sum;
}

// The bars: time of every rank, and what the busiest of a layer takes at least.
void add_times(const Report& r, nlohmann::json& data) {
  std::vector<int> slots;
  const auto live = without_dead(r.cluster, r.dead, slots);
  data["liveSlots"] = slots.size();
  for (int rank = 0; rank < r.cluster.ranks(); ++rank)
    data["dead"].push_back(!r.dead.empty() && r.dead[rank] != 0);
  for (int l = 0; l < r.loads.layers; ++l) {
    data["timeBefore"].push_back(times_of(r, r.before, l));
    data["timeAfter"].push_back(times_of(r, r.plan.placement, l));
    // Of the sum over the windows: other than a step, a bar does not wait for each window's
    // busiest.
    const std::vector<double> load = data["load"][l];
    const std::span<const double> window = load;
    data["line"].push_back(lower_bound({&window, 1}, *live, r.time));
  }
}

}  // namespace

std::string page(const Report& r) {
  using nlohmann::json;
  json data = {{"title", r.title},
               {"policy", r.policy},
               {"from", r.has_from},
               {"first", r.cluster.first_slot},
               {"node", r.cluster.node_of},
               {"nodes", r.cluster.nodes()},
               {"dead", json::array()},
               {"lost", r.plan.lost()},
               {"lost_", json::array()},
               {"liveSlots", 0},
               {"timeBefore", json::array()},
               {"timeAfter", json::array()},
               {"mean", json::array()},
               {"line", json::array()},
               {"before", rows_of(r.before)},
               {"after", rows_of(r.plan.placement)},
               {"balanceBefore", balance_of(r, r.before)},
               {"balance", r.plan.balance()},
               {"bound", r.plan.bound_balance()},
               {"fetches", r.plan.fetches()},
               {"bytes", r.expert_bytes},
               {"payback", r.payback},
               {"before_", layer_balances(r, r.before)},
               {"after_", layer_balances(r, r.plan.placement)},
               {"load", json::array()},
               {"bound_", json::array()},
               {"curve", json::array()}};
  const double slots = double(r.plan.placement.layers) * r.plan.placement.slots;
  data["share"] = static_cast<double>(r.plan.fetches()) / slots;
  for (const sched::CurvePoint& p : r.plan.curve)
    data["curve"].push_back({static_cast<double>(p.fetches) / slots, p.balance});
  for (int l = 0; l < r.loads.layers; ++l) {
    std::vector<double> load(r.loads.experts);
    for (int t = 0; t < r.loads.windows; ++t)
      for (int e = 0; e < r.loads.experts; ++e) load[e] += r.loads.row(t, l)[e];
    data["load"].push_back(load);
    const sched::LayerReport& x = r.plan.layers[l];
    data["bound_"].push_back(x.bound > 0 ? x.mean / x.bound : 1);
    data["lost_"].push_back(x.lost);
    data["mean"].push_back(x.mean);
  }
  add_times(r, data);
  std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6)
    text.replace(at, 1, "\\u003c");  // a file's name must not end the script, nor hide its end
  return std::string(kHead) + text + kScript;
}

}  // namespace rlx::eplb
