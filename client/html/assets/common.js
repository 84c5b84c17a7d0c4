// What both kinds of page use. Texts go into the page as text nodes only.
"use strict";
var Assay = (function () {
  var data = JSON.parse(document.getElementById("data").textContent);
  var plots = {};
  var tip = document.getElementById("tip");

  // As C's %.6g, which the tables use.
  function number(x, digits) {
    if (x === null || x === undefined) return "infinite";
    var p = digits || 6;
    if (x === 0) return "0";
    var e = Number(x.toExponential(p - 1).split("e")[1]);
    if (e < -4 || e >= p) {
      var parts = x.toExponential(p - 1).split("e");
      if (parts[0].indexOf(".") >= 0) parts[0] = parts[0].replace(/\.?0+$/, "");
      var power = Math.abs(e) < 10 ? "0" + Math.abs(e) : String(Math.abs(e));
      return parts[0] + "e" + (e < 0 ? "-" : "+") + power;
    }
    var fixed = x.toFixed(Math.max(0, p - 1 - e));
    return fixed.indexOf(".") >= 0 ? fixed.replace(/\.?0+$/, "") : fixed;
  }

  // What cannot be seen, or moves what stands around it, is spelled out.
  function visible(text) {
    return String(text).replace(
      /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
      function (c) { return "\\u{" + ("000" + c.charCodeAt(0).toString(16).toUpperCase()).slice(-4) + "}"; });
  }

  function power(exponent) {
    var digits = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
    return "10" + String(exponent).replace(/-/, "\u207b").replace(/\d/g, function (d) { return digits[d]; });
  }

  function showTip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 4)) + "px";
    tip.style.top = (y + 18 + box.height > window.innerHeight ? y - box.height - 10 : y + 18) + "px";
  }
  function hideTip() { tip.hidden = true; }

  // A mark that tells `text` when it is pointed at or has the focus.
  function telling(selection, text) {
    selection
      .attr("tabindex", 0).attr("role", "img")
      .attr("aria-label", function (d, i) { return text(d, i); })
      .on("mousemove", function (d, i) { showTip(text(d, i), d3.event.clientX, d3.event.clientY); })
      .on("mouseleave", hideTip)
      .on("focus", function (d, i) {
        var box = this.getBoundingClientRect();
        showTip(text(d, i), box.right, box.top);
      })
      .on("blur", hideTip);
    return selection;
  }

  function svg(element, width, height, label) {
    return d3.select(element).append("svg")
      .attr("viewBox", "0 0 " + width + " " + height).attr("height", height)
      .attr("role", "group").attr("aria-label", label);
  }

  function group(parent, x, y, name) {
    return parent.append("g").attr("transform", "translate(" + x + "," + y + ")").attr("class", name || null);
  }

  function text(parent, x, y, content, anchor, name) {
    return parent.append("text").attr("x", x).attr("y", y).attr("text-anchor", anchor || "start")
      .attr("class", name || null).text(content);
  }

  // Axes: `ticks` are values, `label` their texts.
  function axisX(parent, scale, y, ticks, label, title, width) {
    var g = group(parent, 0, y, "axis");
    g.append("line").attr("x1", scale.range()[0]).attr("x2", scale.range()[1]);
    ticks.forEach(function (t) {
      g.append("line").attr("x1", scale(t)).attr("x2", scale(t)).attr("y2", 5);
      text(g, scale(t), 18, label(t), "middle");
    });
    if (title) text(g, scale.range()[1], 34, title, "end");
  }
  function axisY(parent, scale, x, right, ticks, label) {
    var g = group(parent, 0, 0, "grid");
    ticks.forEach(function (t) {
      g.append("line").attr("x1", x).attr("x2", right).attr("y1", scale(t)).attr("y2", scale(t));
      text(g, x - 6, scale(t) + 4, label(t), "end");
    });
  }

  // Whole powers of ten inside [low, high], both logarithms; fewer where there is no room.
  function powers(low, high, most) {
    var first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
    var step = Math.max(1, Math.ceil((last - first + 1) / most));
    return d3.range(first, last + 1, step);
  }

  // Logarithms of 1, 2 and 5 times powers of ten where the range is short, else whole powers.
  function ticksLog(low, high, most) {
    if (high - low > 2) return powers(low, high, most);
    var out = [];
    for (var e = Math.floor(low); e <= high; ++e) {
      [1, 2, 5].forEach(function (m) {
        var t = e + Math.log(m) / Math.LN10;
        if (t >= low - 1e-9 && t <= high + 1e-9) out.push(t);
      });
    }
    return out;
  }

  // A cursor over `places` (x of each entry), moved by pointer and keys; `tell` gives the text of one,
  // `chosen` is called with its index. Returns a function that moves it.
  function cursor(element, root, frame, places, tell, chosen, order) {
    var line = root.append("line").attr("class", "cursor").attr("y1", frame.top).attr("y2", frame.bottom)
      .attr("visibility", "hidden");
    var readout = document.createElement("output");
    readout.className = "readout";
    readout.setAttribute("aria-live", "polite");
    element.appendChild(readout);
    var at = -1, worst = -1;
    function move(i) {
      if (i < 0 || i >= places.length) return;
      at = i;
      line.attr("x1", places[i]).attr("x2", places[i]).attr("visibility", "visible");
      readout.textContent = tell(i);
      root.attr("aria-valuenow", i + 1).attr("aria-valuetext", tell(i));
      if (chosen) chosen(i);
    }
    root.attr("tabindex", 0).attr("role", "slider").attr("aria-valuemin", 1).attr("aria-valuemax", places.length)
      .attr("aria-valuenow", 1).attr("aria-valuetext", "none chosen; use the arrow keys")
      .on("mousemove", function () {
        var x = d3.mouse(this)[0], best = 0;
        places.forEach(function (p, i) { if (Math.abs(p - x) < Math.abs(places[best] - x)) best = i; });
        if (best !== at) move(best);
      })
      .on("keydown", function () {
        var key = d3.event.key, next = null;
        if (key === "ArrowRight" || key === "ArrowUp") next = Math.min(at + 1, places.length - 1);
        if (key === "ArrowLeft" || key === "ArrowDown") next = Math.max(at - 1, 0);
        if (key === "Home") next = 0;
        if (key === "End") next = places.length - 1;
        if (key === "PageDown") next = Math.max(at - 10, 0);
        if (key === "PageUp") next = Math.min(at + 10, places.length - 1);
        if ((key === "w" || key === "W") && order && order.length) {
          worst = (worst + (key === "W" ? order.length - 1 : 1)) % order.length;
          next = order[worst];
        }
        if (next === null) return;
        d3.event.preventDefault();
        move(next);
      });
    return move;
  }

  function draw(width) {
    hideTip();
    Array.prototype.forEach.call(document.querySelectorAll(".plot"), function (element) {
      var name = element.getAttribute("data-plot");
      var head = data.heads[element.getAttribute("data-head")];
      var w = Math.round(width || element.clientWidth);
      if (!plots[name] || !w) return;
      element.textContent = "";
      plots[name](element, Math.max(w, 260), head);
    });
  }

  function sortBy(table, column, descending) {
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    function key(row) {
      var cell = row.cells[column];
      var value = cell.getAttribute("data-v");
      if (value !== null) return Number(value);
      var shown = cell.textContent;
      if (/^infinite/.test(shown)) return Infinity;
      return shown === "-" || shown === "" ? null : shown;
    }
    rows.map(function (row, i) { return { row: row, key: key(row), i: i }; })
      .sort(function (a, b) {
        if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.i - b.i;
        var order = typeof a.key === "number" && typeof b.key === "number"
          ? (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) : String(a.key).localeCompare(String(b.key));
        return (descending ? -order : order) || a.i - b.i;
      })
      .forEach(function (entry) { body.appendChild(entry.row); });
  }

  function makeSortable(table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell, column) {
      var button = document.createElement("button");
      button.type = "button";
      while (cell.firstChild) button.appendChild(cell.firstChild);
      cell.appendChild(button);
      button.addEventListener("click", function () {
        var descending = cell.getAttribute("aria-sort") === "ascending";
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (c) { c.setAttribute("aria-sort", "none"); });
        cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sortBy(table, column, descending);
      });
    });
  }

  function start() {
    Array.prototype.forEach.call(document.querySelectorAll("table[data-sort]"), makeSortable);
    draw();
    var width = window.innerWidth, waiting = false;
    window.addEventListener("resize", function () {
      if (waiting || window.innerWidth === width) return;
      waiting = true;
      window.requestAnimationFrame(function () {
        waiting = false;
        width = window.innerWidth;
        draw();
      });
    });
    var opened = [];
    window.addEventListener("beforeprint", function () {
      opened = Array.prototype.filter.call(document.querySelectorAll("main details"), function (d) { return !d.open; });
      opened.forEach(function (d) { d.open = true; });
      draw(680);
    });
    window.addEventListener("afterprint", function () {
      opened.forEach(function (d) { d.open = false; });
      draw();
    });
  }

  return {
    data: data, plots: plots, number: number, visible: visible, power: power, telling: telling, svg: svg, group: group,
    text: text, axisX: axisX, axisY: axisY, powers: powers, ticksLog: ticksLog, cursor: cursor, start: start
  };
})();
