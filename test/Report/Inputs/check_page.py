"""check_page.py PAGE TITLE [draw]: checks a page of heddle report, and draws it
in Chromium as wide as a phone and as a desk.

The page must have the title, calls with names, and no reference to other files.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

path, title = sys.argv[1:3]
page = open(path, encoding="utf-8").read()
assert f"<title>{html.escape(title)}</title>" in page
assert not re.search(r'(src|href)\s*=|url\(|@import|fetch\(', page)
text = re.search(r'id="data">(.*?)</script>', page, re.S).group(1)
data = json.loads(text)
assert data["title"] == title
assert data["seconds"] > 0
calls = [c for p in data["processes"] for s in p["streams"] for c in s["calls"]]
assert len(calls) > 20
for call in calls:
    assert call[0] >= 0 and call[0] + call[1] <= data["seconds"] * 1.001, call
    assert data["names"][call[4]]
assert any(data["names"][c[2]] == "communication" for c in calls)

if sys.argv[3:] != ["draw"]:
    sys.exit()
# A window is never as narrow as a phone, so the page stands in a frame. A script
# of this test tells the outer page what was drawn, and how wide that is.
TELL = """<script>parent.postMessage([document.documentElement.scrollWidth,
  document.querySelectorAll("rect").length,
  document.body.innerText].join("|"), "*")</script></body>"""
OUTER = """<body><script>onmessage = e => document.title = e.data;</script>
<iframe src="page.html" width="%d" height="2000"></iframe></body>"""
browser = shutil.which("chromium")
for width in 390, 1200:
    with tempfile.TemporaryDirectory() as home:
        with open(os.path.join(home, "page.html"), "w", encoding="utf-8") as file:
            file.write(page.replace("</body>", TELL))
        outer = os.path.join(home, "outer.html")
        with open(outer, "w", encoding="utf-8") as file:
            file.write(OUTER % width)
        drawn = subprocess.run(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu",
             f"--user-data-dir={home}", "--window-size=1400,2100",
             "--virtual-time-budget=5000", "--dump-dom", f"file://{outer}"],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=300).stdout.decode()
    told = re.search("<title>(.*?)</title>", drawn, re.S).group(1)
    needed, rectangles, text = told.split("|", 2)
    assert int(needed) <= width, (needed, width)
    assert int(rectangles) > 10, rectangles
    for part in "Timeline", "Communication", "Time by operator", "all_reduce over dp":
        assert part in text, (part, text)
