# ruff: noqa: E501 - a script's sentences stay in one piece
"""A session in Chinese: three bytes a character make bytes / 4 and real tokens part ways."""

from __future__ import annotations

from ..agent import Agent, bash, edit, grep, read
from ..story import Story
from ..trees import kucun
from ..writers import neutral

SYSTEM = "你是一名严谨的编程助手，在 /home/dev/project 中工作。修改之前先阅读，修改之后必须运行测试。回答使用中文，结论要注明依据的文件与行号。"


def _play(agent: Agent) -> None:
    agent.system(SYSTEM)
    agent.user(
        "三月份的盘点对不上账，报表里还有很多“无法识别的数量”。请查明原因并修好程序。注意：data/ 目录下的文件绝对不能修改；规则以 docs/guize.md 为准；"
        "每改一处都必须跑一遍测试。"
    )
    agent.turn("先看项目说明和对账规则。", read("README.md"), read("docs/guize.md"))
    agent.turn(
        "规则五与“无法识别的数量”直接相关，规则二、三与库存的算法相关。接下来看代码。",
        read("kucun/jilu.py"),
        read("kucun/duizhang.py"),
    )
    agent.turn(
        "`du_shuliang` 拒绝一切非 ASCII 数字，违反规则五；`kucun` 发现重复单号后仍然累加，违反规则二；`abs(yi.shuliang)` 又把退货当成了出库，违反规则三。先跑测试，"
        "看看是否都有覆盖。",
        bash("python3 tools/runtests.py"),
    )
    agent.turn("三条规则各有一个测试失败，与我的判断一致。再看报表现在的样子。", bash("python3 tools/baobiao.py"))
    agent.turn(
        "大部分货物都有差异。错误集中在三月十二日，正是规则文件里说的夜班补录。看一下原始记录。",
        bash("grep '2024-03-12' data/jilu-2024-03.csv"),
    )
    agent.turn(
        "确认是全角数字。我把整月的记录通读一遍，看看还有没有别的写法。", bash("cat data/jilu-2024-03.csv", "整月记录")
    )
    agent.turn(
        "除了全角数字没有别的写法。先改数量的读取：统一做 NFKC 规范化，再判断。",
        edit(
            "kucun/jilu.py",
            '    if not text.isascii() or not text.lstrip("-").isdigit():',
            '    ban = unicodedata.normalize("NFKC", text)\n    if not ban.isascii() or not ban.lstrip("-").isdigit():',
        ),
        edit("kucun/jilu.py", "    return int(text)\n", "    return int(ban)\n"),
        edit("kucun/jilu.py", "import csv\n", "import csv\nimport unicodedata\n"),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_jilu.py"))
    agent.turn(
        "读取部分通过了，“十二”仍然报错，信息没有变。现在处理重复单据：",
        edit(
            "kucun/duizhang.py",
            "            chongfu.append(yi.danhao)\n",
            "            chongfu.append(yi.danhao)\n            continue\n",
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_duizhang.py"))
    agent.turn(
        "还剩退货。规则三说退货是负的出库，那么直接相减即可，负负得正。",
        edit("kucun/duizhang.py", "zongji[yi.huowu] -= abs(yi.shuliang)", "zongji[yi.huowu] -= yi.shuliang"),
    )
    agent.turn("", bash("python3 tools/runtests.py"))
    agent.turn(
        "等一下，测试 `test_tuihuo_shi_fu_chuku` 期望 10 - 4 + 1 = 7，现在是 7，对得上。再看报表。",
        bash("python3 tools/baobiao.py"),
    )
    agent.turn(
        "差异只剩挂钟一项，少了一件；重复单据全部列出来了，没有被静默丢弃。看一下挂钟的明细，确认不是程序的问题。",
        bash("python3 tools/baobiao.py --mingxi 挂钟"),
    )
    agent.turn(
        "再用一个独立的办法核对：直接从原始文件里挑出挂钟，不经过程序。", bash("grep '挂钟' data/jilu-2024-03.csv")
    )
    agent.user("挂钟那一件可能真的是盘点的误差。请按规则四检查是否需要标记“需复盘”，现在的报表好像没有做这件事。")
    agent.turn("报表确实没有实现规则四。先看打印的地方。", read("tools/baobiao.py"), grep("复盘", ".", "*"))
    agent.turn(
        "规则四：差异超过百分之二才标记。用整数比较，避免小数（规则一）。",
        edit(
            "tools/baobiao.py",
            '        print(f"{huowu}：账面 {zhangmian}，盘点 {pandian}，差异 {cha:+d}")',
            '        biaoji = "，需复盘" if abs(cha) * 100 > abs(pandian) * 2 else ""\n        print(f"{huowu}：账面 {zhangmian}，盘点 {pandian}，差异 {cha:+d}{biaoji}")',
        ),
    )
    agent.turn("", bash("python3 tools/baobiao.py"), bash("python3 tools/runtests.py -v"))
    agent.user("很好。为了存档，请把十种货物的明细都列出来给我看，一种一种地列。")
    for first in range(0, 10, 2):
        two = kucun.GOODS[first : first + 2]
        agent.turn(f"{two[0]}和{two[1]}：", *(bash(f"python3 tools/baobiao.py --mingxi {name}") for name in two))
    agent.turn(
        "全部列完。总结：\n\n一、`kucun/jilu.py` 先把全角数字转成半角（规则五），三月十二日夜班补录的记录都能读了；\n二、重复单据只算第一次，并且全部列出（规则二）；\n"
        "三、退货按负的出库计算（规则三）；\n四、差异超过百分之二时标记“需复盘”（规则四），挂钟差一件，是否标记请看报表。\n\ndata/ 下的文件没有任何改动，测试全部通过。"
    )


STORY = Story(
    file="chinese-stock-bytes-against-tokens.jsonl",
    format="neutral messages",
    happens="User, files and replies are Chinese: three bytes a character, so bytes / 4 and real tokens disagree.",
    files=kucun.files,
    play=_play,
    write=neutral.write,
    model="deepseek-chat",
    window=20_000,
    start=1_711_936_800_000,
    system=SYSTEM,
)
